/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ones'-complement sums, as in network checksums. */
#ifndef HARNESS_CHECKSUM_H
#define HARNESS_CHECKSUM_H

#include "integers.h"

/*
 * The sum of 16 bits that a longer one folds to. It is 0 for 0 alone: carries that go around bring
 * no other sum there, and a packet whose sum is 0 instead of 0xffff is taken for damaged.
 */
u32 checksum_fold(u64 sum);

/*
 * The plain sum of little-endian words of 16 bits, of up to 2^48 bytes; the last may be half a
 * word.
 */
u64 checksum_add(const unsigned char *bytes, u64 count);

#endif
