/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory of both sides of a call, and what it held before. */
#ifndef HARNESS_BUFFERS_H
#define HARNESS_BUFFERS_H

#include "arena.h"
#include "verdict.h"

struct buffers {
	struct arena side[SIDES];
	uint8_t *held[SIDES]; /* a copy of each: what calls leave there is undone */
	uint8_t value;	      /* of a search: no byte of the source has it */
};

/* Make room of size bytes a side, before inaccessible ones. */
struct buffers buffers_open(size_t size, size_t behind);
void buffers_close(struct buffers *buffers);

/*
 * Fill both sides, once, and let the source be read alone. With the first pattern source bytes are
 * below 0x80 and what the destination held is above, so that each byte shows where it came from;
 * buffers_patterns() says how many patterns there are.
 */
void buffers_fill(struct buffers *buffers, const struct job *job, int fill);
int buffers_patterns(const struct job *job);
/* Of sums: the patterns that are tried at every size and alignment. */
#define BUFFERS_FULL_FILLS 3

/* The byte at a place of a side, by the same rule. */
uint8_t buffers_byte(const struct job *job, enum side side, int fill, size_t at);

/*
 * Check that the first done bytes of an attempt's destination are as they must be, that the rest
 * is either that or as it was, and so are the bytes around it; then make it as it was.
 */
void buffers_check(const struct buffers *buffers, const struct job *job,
		   const struct attempt *attempt, size_t done);

/*
 * Hold a destination to be as it was, or as it is meant to be, where its first bytes cannot be
 * accessed: it begins before the memory of its side.
 */
void buffers_check_front(const struct buffers *buffers, const struct job *job,
			 const struct attempt *attempt);

/* Check a move from its end: its last done bytes, the rest, and what lies around; then undo it. */
void buffers_check_back(const struct buffers *buffers, const struct job *job,
			const struct attempt *attempt, size_t done);

/* Hold a destination, and the bytes around it, to be as they were. */
void buffers_check_around(const struct buffers *buffers, const struct attempt *attempt);

/* Check that nothing but what was looked at case by case has changed either. */
void buffers_check_all(const struct buffers *buffers);

#endif
