/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Integer arithmetic, as in a kernel: user space, kit and module compute bit-identical results. */
#ifndef HARNESS_INTEGERS_H
#define HARNESS_INTEGERS_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;
#endif

#define MILLION 1000000ull

/* value * times / by, rounded down; the largest number where that does not fit, or by is 0. */
u64 integers_scale(u64 value, u64 times, u64 by);

u64 integers_apart(u64 a, u64 b);

/* The largest number whose square is at most this. */
u64 integers_root(u64 square);

void integers_sort(u64 *values, unsigned int count);

/* The value below which so many percent of sorted values lie, interpolated; count is 1 or more. */
u64 integers_quantile(const u64 *sorted, unsigned int count, unsigned int percent);

#endif
