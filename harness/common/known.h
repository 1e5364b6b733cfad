/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loops whose cost is known, and whether what was measured of them is that. */
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

/* What was measured of such a loop. */
struct known_test {
	struct known known;
	u64 cycles;   /* an instruction, in millionths; 0 where it was refused */
	u64 expected; /* what they are to be; 0 where they are refused and not known */
	bool held;
	char refused[SERIES_REASON];
};

/*
 * Hold a reading to what is known. Where that is not known of the core it is the nearest whole
 * number of cycles, or of instructions a cycle: all latencies are such, and all streams that units
 * of one kind limit, unless a neighbour shares the core.
 */
struct known_test known_test(const struct known *known, const struct reading *reading);

/* Write which of the tests did not hold; nothing where all did. */
void known_complain(const struct known_test *tests, unsigned int count, char *text, size_t size);

#endif
