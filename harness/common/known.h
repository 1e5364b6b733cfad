/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loops of known cycles, and the check of measurements against them. */
#ifndef HARNESS_KNOWN_H
#define HARNESS_KNOWN_H

#include "series.h"

#define CHAIN_LENGTH 64 /* instructions an iteration of such a loop */
#define KNOWN_LOOPS 16	/* room */

struct code;

struct known {
	const char *name;
	const struct code *code; /* iterations of CHAIN_LENGTH instructions */
	u64 cycles;		 /* an instruction, in millionths; 0: not known of this core */
	unsigned int tolerance;	 /* parts in a million */
	bool required;		 /* nothing is measured where it does not hold */
	bool canary; /* slower where a thread shares the core; enough of these must hold */
};

/* The measurement of such a loop. */
struct known_test {
	struct known known;
	u64 cycles;   /* an instruction, in millionths; 0 where it was refused */
	u64 expected; /* what they are to be; 0 where they are refused and not known */
	bool held;
	char refused[SERIES_REASON];
};

/*
 * Compare a reading with the known cycles. If they are not known for the core they are the nearest
 * whole number of cycles, or of instructions a cycle, as is true of all latencies and of all
 * streams that units of one kind limit, unless a neighbour shares the core.
 */
struct known_test known_test(const struct known *known, const struct reading *reading);

/* Write the names of failed tests; nothing if all held. */
void known_complain(const struct known_test *tests, unsigned int count, char *text, size_t size);

#endif
