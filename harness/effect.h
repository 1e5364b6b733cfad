/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reference semantics of the effects. */
#ifndef HARNESS_EFFECT_H
#define HARNESS_EFFECT_H

#include "verdict.h"

/*
 * Bytes that a complete call leaves at the destination, as far as the source can be read (known of
 * them); covered is NULL where it writes all.
 */
struct image {
	const uint8_t *bytes;
	const bool *covered;
	size_t known;
};

/* Whether calls write a destination or compare one. */
bool effect_has_dst(const struct job *job);

/* Whether calls differ in their bytes or records: by a count, or by what they find. */
bool effect_is_counted(const struct job *job);

/*
 * Set the bytes of both sides for a count. Of a search for a value these are the bytes that it
 * needs: up to the first that has the value, if there is one.
 */
void effect_size(const struct job *job, struct attempt *attempt);

#define EFFECT_AROUND 16 /* bytes on each side of a searched buffer that may be changed */

/*
 * Put what a call finds where its effect is to read it. A search: the value at the end of the
 * bytes, and beside them, where before and behind say how many bytes there are; of three calls one
 * is not to find it, and one is told a larger count, at times the largest. A comparison: a
 * destination that is like the source up to differ.
 */
void effect_arrange(const struct job *job, struct attempt *attempt, size_t before, size_t behind);

/* Where a comparison of so many bytes is to find the first difference; size for nowhere. */
size_t effect_differ(uint64_t twist, size_t size);

/* The sign of a comparison of both sides. */
int effect_order(const struct attempt *attempt);

/* Whether a comparison or search needs a byte that cannot be accessed. */
bool effect_faults(const struct job *job, const struct attempt *attempt);

/* Whether a move begins at the end: the source overlaps the destination from before it. */
bool effect_is_backward(const struct job *job, const struct attempt *attempt);

/* The image for an attempt; it holds until the next call. */
struct image effect_image(const struct job *job, const struct attempt *attempt);

/* Bytes, or records, that can be done before the first that cannot be accessed. */
size_t effect_possible(const struct job *job, const struct attempt *attempt);

/* The ones'-complement sum of 16 bits of little-endian words and seed, not complemented. */
uint32_t effect_sum(const uint8_t *bytes, size_t count, uint64_t seed);

#endif
