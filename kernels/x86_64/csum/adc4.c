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

static inline u64 plus_8(u64 total, const void *at)
{
	asm("addq (%[at]),%[total]\n\t"
	    "adcq $0,%[total]"
	    : [total] "+r"(total)
	    : [at] "r"(at), "m"(*(const u8(*)[8])at));
	return total;
}

static inline u64 plus_16(u64 total, const void *at)
{
	asm("addq (%[at]),%[total]\n\t"
	    "adcq 8(%[at]),%[total]\n\t"
	    "adcq $0,%[total]"
	    : [total] "+r"(total)
	    : [at] "r"(at), "m"(*(const u8(*)[16])at));
	return total;
}

static inline __wsum half(u64 total)
{
	return (__force __wsum)((total + ror64(total, 32)) >> 32);
}

/*
 * Add the bytes of buff to a ones' complement sum of 32 bits. The carry runs through one chain
 * over the whole buffer, by turns into two sums: the loop counts with lea and ends with jrcxz,
 * which leave flags alone. The next index is ready before the addresses of this one are done
 * with, so that no adc waits for it.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 total = (__force u64)sum;

	if (len >= 32) {
		const void *end = buff + (len & ~31);
		long index = buff - end;
		long next;
		u64 odd = 0;

		asm("clc\n"
		    "1:	jrcxz 2f\n\t"
		    "adcq (%[end],%[index]),%[even]\n\t"
		    "adcq 8(%[end],%[index]),%[odd]\n\t"
		    "leaq 32(%[index]),%[next]\n\t"
		    "adcq 16(%[end],%[index]),%[even]\n\t"
		    "adcq 24(%[end],%[index]),%[odd]\n\t"
		    "movq %[next],%[index]\n\t"
		    "jmp 1b\n"
		    "2:	adcq %[odd],%[even]\n\t"
		    "adcq $0,%[even]"
		    : [even] "+r"(total), [odd] "+r"(odd), [index] "+c"(index), [next] "=&r"(next)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
	}
	if (len & 16) {
		total = plus_16(total, buff);
		buff += 16;
	}
	if (len & 8) {
		total = plus_8(total, buff);
		buff += 8;
	}
	if (len & 7) {
		/* The last bytes as a word: what lies behind them is shifted out and back. */
		int behind = (-len << 3) & 63;

		total = plus_word(total, load_unaligned_zeropad(buff) << behind >> behind);
	}
	return half(total);
}
EXPORT_SYMBOL(csum_partial);
