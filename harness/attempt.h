/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One call of a routine under test, with all that is checked about it. */
#ifndef HARNESS_ATTEMPT_H
#define HARNESS_ATTEMPT_H

#include "job.h"

#define ATTEMPT_NOWHERE SIZE_MAX /* no place of a buffer */

/*
 * count is what the routine is told (bytes, or records). Of the bytes[side] at at[side] only the
 * first limit[side] can be accessed, and of these the first front[side] cannot. sum is the seed of
 * a checksum.
 */
struct attempt {
	size_t count;
	uint8_t *at[SIDES];
	size_t bytes[SIDES];
	size_t limit[SIDES];
	size_t front[SIDES];
	uint64_t sum;
	uint8_t value;	 /* that is stored, or looked for */
	uint64_t twist;	 /* chooses between contents, see effect_arrange */
	size_t differ;	 /* where two sides that are compared differ first, or ATTEMPT_NOWHERE */
	size_t match;	 /* where the value is found, or ATTEMPT_NOWHERE */
	bool overlapped; /* the source lies in the destination's memory */
	const uint8_t *source; /* what the source held before the call */
	bool stray;	       /* the destination is no address of a user's */
	uint32_t
	    known; /* what the sum folds to, where that is not to be found out from the bytes */
};

struct buffers;
struct arena;

/* From here on addresses are none of a user's, on x86-64 with 48 bits. */
#define STRAY_BORDER 0x0000800000000000ull

/* What the checking process shares with the one that started it, so that it outlives a crash. */
struct verdict {
	uint64_t cases;
	uint64_t over_report;
	int finished;
	char failure[320];
	uint32_t hits[]; /* one an exception-table entry */
};

/* End the process with the failure of a case in the verdict. */
void attempt_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Prepare to attempt a job; call once a process. */
void attempt_init(const struct job *job, struct verdict *verdict);

/* Place both sides of attempts here from now on. */
void attempt_use(const struct buffers *buffers);
const struct arena *attempt_side(enum side side);
uint8_t attempt_value(void); /* that this memory is made for a search of */

void attempt_run(struct attempt *attempt);

#endif
