// SPDX-License-Identifier: GPL-2.0-or-later
#include <asm/checksum.h>
#include <asm/word-at-a-time.h>
#include <linux/compiler.h>
#include <linux/export.h>

static inline __wsum csum_finalize_sum(u64 temp64)
{
	return (__force __wsum)((temp64 + ror64(temp64, 32)) >> 32);
}

/* Each word is an operand of its own, so that the compiler may address it from any base. */
static inline unsigned long update_csum_40b(unsigned long sum, const unsigned long word[5])
{
	asm("addq %[a],%[sum]\n\t"
	    "adcq %[b],%[sum]\n\t"
	    "adcq %[c],%[sum]\n\t"
	    "adcq %[d],%[sum]\n\t"
	    "adcq %[e],%[sum]\n\t"
	    "adcq $0,%[sum]"
	    : [sum] "+r"(sum)
	    : [a] "m"(word[0]), [b] "m"(word[1]), [c] "m"(word[2]), [d] "m"(word[3]),
	      [e] "m"(word[4]));
	return sum;
}

/*
 * Add the bytes of buff to a ones' complement sum of 32 bits. From 80 bytes on the carry runs
 * through one chain over all words, by turns into two sums: the loop counts with lea and ends
 * with jrcxz, which leave flags alone.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 temp64 = (__force u64)sum;

	/* One carry through all words, by turns into two sums. */
	if (likely(len >= 80)) {
		const void *end = buff + (len & ~15);
		long index = buff - end;
		u64 odd = 0;

		asm("clc\n"
		    "1:	jrcxz 2f\n\t"
		    "adcq (%[end],%[index]),%[even]\n\t"
		    "adcq 8(%[end],%[index]),%[odd]\n\t"
		    "leaq 16(%[index]),%[index]\n\t"
		    "jmp 1b\n"
		    "2:	adcq %[odd],%[even]\n\t"
		    "adcq $0,%[even]"
		    : [even] "+r"(temp64), [odd] "+r"(odd), [index] "+c"(index)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
		len &= 15;
	}

	/* An IPv6 header, which needs no tail. */
	if (len >= 40) {
		temp64 = update_csum_40b(temp64, buff);
		len -= 40;
		if (!len)
			return csum_finalize_sum(temp64);
		buff += 40;
	}

	if (len & 32) {
		asm("addq (%[at]),%[sum]\n\t"
		    "adcq 8(%[at]),%[sum]\n\t"
		    "adcq 16(%[at]),%[sum]\n\t"
		    "adcq 24(%[at]),%[sum]\n\t"
		    "adcq $0,%[sum]"
		    : [sum] "+r"(temp64)
		    : [at] "r"(buff), "m"(*(const u8(*)[32])buff));
		buff += 32;
	}
	if (len & 16) {
		asm("addq (%[at]),%[sum]\n\t"
		    "adcq 8(%[at]),%[sum]\n\t"
		    "adcq $0,%[sum]"
		    : [sum] "+r"(temp64)
		    : [at] "r"(buff), "m"(*(const u8(*)[16])buff));
		buff += 16;
	}
	if (len & 8) {
		asm("addq (%[at]),%[sum]\n\t"
		    "adcq $0,%[sum]"
		    : [sum] "+r"(temp64)
		    : [at] "r"(buff), "m"(*(const u8(*)[8])buff));
		buff += 8;
	}
	if (len & 7) {
		/* The last bytes as a word: what lies behind them is shifted out and back. */
		unsigned int shift = (-len << 3) & 63;
		u64 last = load_unaligned_zeropad(buff) << shift >> shift;

		asm("addq %[last],%[sum]\n\t"
		    "adcq $0,%[sum]"
		    : [sum] "+r"(temp64)
		    : [last] "r"(last));
	}
	return csum_finalize_sum(temp64);
}
EXPORT_SYMBOL(csum_partial);
