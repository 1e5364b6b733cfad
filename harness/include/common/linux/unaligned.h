/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_UNALIGNED_H
#define LW_LINUX_UNALIGNED_H

#include <linux/types.h>

/* What the configurations of x86-64 and arm64 say. */
#define CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS 1

#define get_unaligned(ptr)                                                                         \
	(((const struct { __typeof__(*(ptr)) value; } __attribute__((packed)) *)(ptr))->value)

static inline u32 get_unaligned_be32(const void *p)
{
	return __builtin_bswap32(get_unaligned((const u32 *)p));
}

static inline u64 get_unaligned_be64(const void *p)
{
	return __builtin_bswap64(get_unaligned((const u64 *)p));
}

#endif
