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
 * over the whole buffer: the loop counts with lea and ends with jrcxz, which leave flags alone.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 temp64 = (__force u64)sum;

	if (len >= 8) {
		const void *end = buff + (len & ~7);
		long index = buff - end;

		asm("clc\n"
		    "1:	jrcxz 2f\n\t"
		    "adcq (%[end],%[index]),%[sum]\n\t"
		    "leaq 8(%[index]),%[index]\n\t"
		    "jmp 1b\n"
		    "2:	adcq $0,%[sum]"
		    : [sum] "+r"(temp64), [index] "+c"(index)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
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
