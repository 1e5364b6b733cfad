/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reference semantics of the effects. */
#ifndef HARNESS_EFFECT_H
#define HARNESS_EFFECT_H

#include "verdict.h"

/*
 * Bytes that a complete call leaves at the destination, as far as the source can be read (the first
 * `known` ones); covered is NULL if it writes all.
 */
struct image {
	const uint8_t *bytes;
	const bool *covered;
	size_t known;
};

/* True if calls write a destination or compare one. */
bool effect_has_dst(const struct job *job);

/* True if calls differ in their bytes or records: by a count, or by the content found. */
bool effect_is_counted(const struct job *job);

/*
 * Set the bytes of both sides for a count. For a search these are the bytes that it needs: up to
 * the first with the value, if there is one.
 */
void effect_size(const struct job *job, struct attempt *attempt);

#define EFFECT_AROUND 16 /* bytes on each side of a searched buffer that may be changed */

/*
 * Write the content that a call is to find. For a search: the value at the end of the bytes, and
 * around them, where before and behind are the bytes available; one of three calls does not find
 * it, and one gets a larger count, sometimes the largest. For a comparison: a destination equal to
 * the source up to differ.
 */
void effect_arrange(const struct job *job, struct attempt *attempt, size_t before, size_t behind);

/* The index of the first difference in a comparison of so many bytes; size for none. */
size_t effect_differ(uint64_t twist, size_t size);

/* The sign of a comparison of both sides. */
int effect_order(const struct attempt *attempt);

/* True if a comparison or search needs an inaccessible byte. */
bool effect_faults(const struct job *job, const struct attempt *attempt);

/* True if a move begins at the end: the source begins before the destination and overlaps it. */
bool effect_is_backward(const struct job *job, const struct attempt *attempt);

/* The image for an attempt; it is valid until the next call. */
struct image effect_image(const struct job *job, const struct attempt *attempt);

/* Bytes, or records, before the first inaccessible one. */
size_t effect_possible(const struct job *job, const struct attempt *attempt);

/* The ones'-complement sum of 16 bits of little-endian words and seed, not complemented. */
uint32_t effect_sum(const uint8_t *bytes, size_t count, uint64_t seed);

#endif
