/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The next case to try: its count, and the addresses of both sides. */
#ifndef HARNESS_NEXT_CASE_H
#define HARNESS_NEXT_CASE_H

#include "attempt.h"

extern struct next_case {
	struct attempt attempt;
	size_t differ; /* where both sides differ, ATTEMPT_NOWHERE: at any place */
	uint64_t turn; /* rotates what is not tried in every combination */
} next_case;

void next_case_open(const struct job *job);

/* True if the routine has that side. */
bool next_case_uses(enum side side);

/* Set the count that the routine gets, and the bytes that follow from it. */
void next_case_count(size_t count);

/* Place a side of which limit bytes can be accessed. */
void next_case_put(enum side side, uint8_t *at, size_t limit);

/* The start of a buffer whose first limit bytes are the last accessible ones. */
uint8_t *next_case_before_guard(enum side side, size_t limit);

/* Place the source so many bytes after the destination, in its memory. */
void next_case_overlap(ptrdiff_t distance);

/* Attempt it if the contract allows such addresses; false if it does not. */
bool next_case_run(void);

#endif
