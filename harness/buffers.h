/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory of both sides of a call, and its initial content. */
#ifndef HARNESS_BUFFERS_H
#define HARNESS_BUFFERS_H

#include "arena.h"
#include "verdict.h"

struct buffers {
	struct arena side[SIDES];
	uint8_t *held[SIDES]; /* a copy of each: what calls leave there is undone */
	uint8_t value;	      /* of a search: no byte of the source has it */
};

/* Allocate size bytes for each side, followed by inaccessible ones. */
struct buffers buffers_open(size_t size, size_t behind);
void buffers_close(struct buffers *buffers);

/*
 * Fill both sides, once, and make the source read-only. With the first pattern source bytes are
 * below 0x80 and initial destination bytes above, so that each byte shows its origin;
 * buffers_patterns() returns the number of patterns.
 */
void buffers_fill(struct buffers *buffers, const struct job *job, int fill);
int buffers_patterns(const struct job *job);
/* For sums: the patterns that are tried at every size and alignment. */
#define BUFFERS_FULL_FILLS 3

/* The byte at an index of a side, by the same rule. */
uint8_t buffers_byte(const struct job *job, enum side side, int fill, size_t at);

/*
 * Check that the first `done` bytes of an attempt's destination are correct, that the rest is
 * either correct or unchanged, and that the bytes around it are unchanged; then restore it.
 */
void buffers_check(const struct buffers *buffers, const struct job *job,
		   const struct attempt *attempt, size_t done);

/*
 * Check that a destination with inaccessible first bytes, which begins before the memory of its
 * side, is unchanged or correct.
 */
void buffers_check_front(const struct buffers *buffers, const struct job *job,
			 const struct attempt *attempt);

/*
 * Check a move from its end: its last `done` bytes, the rest, and the bytes around; then undo it.
 */
void buffers_check_back(const struct buffers *buffers, const struct job *job,
			const struct attempt *attempt, size_t done);

/* Check that a destination, and the bytes around it, are unchanged. */
void buffers_check_around(const struct buffers *buffers, const struct attempt *attempt);

/* Check that bytes outside of the single cases' checks are unchanged, too. */
void buffers_check_all(const struct buffers *buffers);

#endif
