// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/bitops.h>
#include <linux/export.h>
#include <linux/string.h>
#include <linux/types.h>

#undef memchr
/*
 * Aligned words from the one on that holds the first byte: none crosses a page. Of a word x the
 * first byte that is zero, and no byte before it, has its highest bit set in
 * (x - 0x01..01) & ~x & 0x80..80.
 */
void *memchr(const void *s, int c, size_t n)
{
	const unsigned long ones = ~0ul / 0xff, wanted = ones * (unsigned char)c;
	const unsigned long start = (unsigned long)s;
	const unsigned long *at = (const unsigned long *)(start & -sizeof(*at));
	unsigned long word, found, byte;

	if (!n)
		return NULL;
	/* What stands before the first byte becomes such that none is found. */
	word = (*at ^ wanted) | ~(~0ul << start % sizeof(*at) * 8);
	for (;;) {
		found = (word - ones) & ~word & ones << 7;
		if (found)
			break;
		at++;
		if ((unsigned long)at - start >= n)
			return NULL;
		word = *at ^ wanted;
	}
	byte = (unsigned long)at + __ffs(found) / 8;
	return byte - start < n ? (void *)byte : NULL;
}
EXPORT_SYMBOL(memchr);
