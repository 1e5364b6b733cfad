/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loops whose cost is known: what a meter is checked by. */
#ifndef HARNESS_KNOWN_H
#define HARNESS_KNOWN_H

#include "chains.h"

#include <stdbool.h>
#include <stddef.h>

#define KNOWN_LOOPS 16 /* room */

struct known {
	const char *name;
	void (*code)(uint64_t iterations); /* of CHAIN_LENGTH instructions */
	double cycles;			   /* an instruction; 0: not known of this core */
	double tolerance;		   /* relative */
	bool required;			   /* nothing is measured where it does not hold */
	bool canary;			   /* slower where a thread shares the core */
};

/* Fill in this ISA's loops, the required ones first, for the core that this is; how many. */
size_t known_loops(struct known *loops);

/*
 * What cycles an instruction measured are to be. Where it is not known of the core that is the
 * nearest whole number of cycles, or of instructions a cycle: all latencies are such, and all
 * streams that units of one kind limit, unless a neighbour shares the core.
 */
double known_cycles(const struct known *known, double measured);

#endif
