/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reference semantics of the effects, in terms of bytes. */
#ifndef LOOPWRIGHT_KMOD_EFFECT_H
#define LOOPWRIGHT_KMOD_EFFECT_H

#include "kmod.h"

/* One case: of the bytes of the user side only the first limit can be accessed. */
struct attempt {
	const struct variant *variant;
	enum side user;
	unsigned int count; /* bytes, or records */
	unsigned int limit;
	unsigned int bytes[SIDES];
};

/* Fill in bytes; a side that the effect does not have has none. */
void effect_size(struct attempt *attempt);

/* Write to image the bytes of dst after a complete call, given those before. */
void effect_image(const struct attempt *attempt, const u8 *src, u8 *image);

/* Bytes, or records, before the first inaccessible one. */
unsigned int effect_possible(const struct attempt *attempt);

/* The ones'-complement sum of 16 bits of little-endian words and seed, not complemented. */
unsigned int effect_sum(const u8 *bytes, unsigned int count, u32 seed);

#endif
