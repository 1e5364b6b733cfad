/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reference semantics of the effects. */
#ifndef HARNESS_EFFECT_H
#define HARNESS_EFFECT_H

#include "attempt.h"

/*
 * Bytes that a complete call leaves at the destination, as far as the source can be read (known of
 * them); covered is NULL where it writes all.
 */
struct image {
	const uint8_t *bytes;
	const bool *covered;
	size_t known;
};

/* The image for an attempt; it holds until the next call. */
struct image effect_image(const struct job *job, const struct attempt *attempt);

/* Bytes, or records, that can be done before the first that cannot be accessed. */
size_t effect_possible(const struct job *job, const struct attempt *attempt);

/* The ones'-complement sum of 16 bits of little-endian words and seed, not complemented. */
uint32_t effect_sum(const uint8_t *bytes, size_t count, uint64_t seed);

#endif
