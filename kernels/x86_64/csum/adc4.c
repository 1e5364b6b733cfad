// SPDX-License-Identifier: GPL-2.0-or-later
#include <asm/checksum.h>
#include <asm/word-at-a-time.h>
#include <linux/compiler.h>
#include <linux/export.h>

static inline __wsum csum_finalize_sum(u64 temp64)
{
	return (__force __wsum)((temp64 + ror64(temp64, 32)) >> 32);
}

/*
 * Add the bytes of buff to a ones' complement sum of 32 bits. The carry runs through one chain
 * over the whole buffer, by turns into two sums: the loop counts with lea and ends with jrcxz,
 * which leave flags alone. The next index is ready before the addresses of this one are done
 * with, so that no adc waits for it.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 temp64 = (__force u64)sum;

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
		    : [even] "+r"(temp64), [odd] "+r"(odd), [index] "+c"(index), [next] "=&r"(next)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
	}
	if (len & 16) {
		asm("addq (%[src]),%[res]\n\t"
		    "adcq 8(%[src]),%[res]\n\t"
		    "adcq $0,%[res]"
		    : [res] "+r"(temp64)
		    : [src] "r"(buff), "m"(*(const char(*)[16])buff));
		buff += 16;
	}
	if (len & 8) {
		asm("addq (%[src]),%[res]\n\t"
		    "adcq $0,%[res]"
		    : [res] "+r"(temp64)
		    : [src] "r"(buff), "m"(*(const char(*)[8])buff));
		buff += 8;
	}
	if (len & 7) {
		/* The word that starts with the last bytes, without what follows them. */
		unsigned int shift = (-len << 3) & 63;
		unsigned long trail = (load_unaligned_zeropad(buff) << shift) >> shift;

		asm("addq %[trail],%[res]\n\t"
		    "adcq $0,%[res]"
		    : [res] "+r"(temp64)
		    : [trail] "r"(trail));
	}
	return csum_finalize_sum(temp64);
}
EXPORT_SYMBOL(csum_partial);
