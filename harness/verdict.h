/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The call under test, and the verdict on a job: the number of correct calls, or the wrong one. */
#ifndef HARNESS_VERDICT_H
#define HARNESS_VERDICT_H

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

/* The first address beyond user memory, on x86-64 with 48 bits. */
#define STRAY_BORDER 0x0000800000000000ull

/* Memory that the checking process shares with its parent, so that it outlives a crash. */
struct verdict {
	uint64_t cases;
	uint64_t over_report;
	int finished;
	char failure[320];
	uint32_t hits[]; /* one an exception-table entry */
};

/* From now on write the verdict on a job here; call once a process. */
void verdict_open(const struct job *job, struct verdict *verdict);

/* Set the call under test. */
void verdict_on(const struct attempt *attempt);

/* End the process with the failure of the call under test in the verdict. */
void verdict_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
