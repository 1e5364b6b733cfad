/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_BITOPS_H
#define LW_LINUX_BITOPS_H

#include <linux/types.h>

static inline u64 ror64(u64 word, unsigned int shift)
{
	return (word >> (shift & 63)) | (word << (-shift & 63));
}

/* The number of the lowest bit that is set. */
static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

#endif
