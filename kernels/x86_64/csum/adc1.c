// SPDX-License-Identifier: GPL-2.0-or-later
#include <asm/checksum.h>
#include <asm/word-at-a-time.h>
#include <linux/compiler.h>
#include <linux/export.h>

/* Ones' complement addition: what is carried out of the top comes in at the bottom. */
static inline u64 plus_word(u64 total, u64 word)
{
	asm("addq %[word],%[total]\n\tadcq $0,%[total]" : [total] "+r"(total) : [word] "r"(word));
	return total;
}

static inline __wsum half(u64 total)
{
	return (__force __wsum)((total + ror64(total, 32)) >> 32);
}

/*
 * Add the bytes of buff to a ones' complement sum of 32 bits. The carry runs through one chain
 * over the whole buffer: the loop counts with lea and ends with jrcxz, which leave flags alone.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 total = (__force u64)sum;

	if (len >= 8) {
		const void *end = buff + (len & ~7);
		long index = buff - end;

		asm("clc\n"
		    "1:	jrcxz 2f\n\t"
		    "adcq (%[end],%[index]),%[sum]\n\t"
		    "leaq 8(%[index]),%[index]\n\t"
		    "jmp 1b\n"
		    "2:	adcq $0,%[sum]"
		    : [sum] "+r"(total), [index] "+c"(index)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
	}
	if (len & 7) {
		/* The last bytes as a word: what lies behind them is shifted out and back. */
		int behind = (-len << 3) & 63;

		total = plus_word(total, load_unaligned_zeropad(buff) << behind >> behind);
	}
	return half(total);
}
EXPORT_SYMBOL(csum_partial);
