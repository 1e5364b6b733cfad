// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/string.h>
#include <linux/types.h>

#undef memchr
/*
 * Aligned pairs of words from the one on that holds the first byte: none crosses a page. Of a word
 * x the first byte that is zero, and no byte before it, has its highest bit set in
 * (x - 0x01..01) & ~x & 0x80..80.
 */
void *memchr(const void *s, int c, size_t n)
{
	const unsigned long ones = ~0ul / 0xff, wanted = ones * (unsigned char)c;
	const unsigned long start = (unsigned long)s;
	const unsigned long *at = (const unsigned long *)(start & -2 * sizeof(*at));
	unsigned long low, high, found, byte;

	if (!n)
		return NULL;
	low = at[0] ^ wanted;
	high = at[1] ^ wanted;
	/* What stands before the first byte becomes such that none is found. */
	byte = ~(~0ul << start % sizeof(*at) * 8);
	if (start & sizeof(*at)) {
		low = ~0ul;
		high |= byte;
	} else {
		low |= byte;
	}
	for (;;) {
		found = (low - ones) & ~low & ones << 7;
		byte = (unsigned long)at;
		if (found)
			break;
		found = (high - ones) & ~high & ones << 7;
		byte += sizeof(*at);
		if (found)
			break;
		at += 2;
		if ((unsigned long)at - start >= n)
			return NULL;
		low = at[0] ^ wanted;
		high = at[1] ^ wanted;
	}
	byte += __ffs(found) / 8;
	return byte - start < n ? (void *)byte : NULL;
}
EXPORT_SYMBOL(memchr);
