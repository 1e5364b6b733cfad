// SPDX-License-Identifier: GPL-2.0-or-later
#include <asm/checksum.h>
#include <asm/cpufeature.h>
#include <asm/word-at-a-time.h>
#include <linux/compiler.h>
#include <linux/export.h>

static inline __wsum csum_finalize_sum(u64 temp64)
{
	return (__force __wsum)((temp64 + ror64(temp64, 32)) >> 32);
}

/* Add five words and the carry out of them. */
static inline unsigned long update_csum_40b(unsigned long sum, const unsigned long m[5])
{
	asm("addq %1,%0\n\t"
	    "adcq %2,%0\n\t"
	    "adcq %3,%0\n\t"
	    "adcq %4,%0\n\t"
	    "adcq %5,%0\n\t"
	    "adcq $0,%0"
	    : "+r"(sum)
	    : "m"(m[0]), "m"(m[1]), "m"(m[2]), "m"(m[3]), "m"(m[4]));
	return sum;
}

/*
 * Add the bytes of buff to a ones' complement sum of 32 bits. With ADX two chains run through the
 * whole buffer side by side, one in the carry and one in the overflow flag; the loop counts with
 * lea and ends with jrcxz, which leave both alone. Other CPUs run two chains of 40 bytes.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 temp64 = (__force u64)sum;

	if (static_cpu_has(X86_FEATURE_ADX)) {
		const void *end = buff + (len & ~63);
		long index = buff - end;
		long next;
		u64 odd;

		/* The xor clears both flags. */
		asm("xorl %k[odd],%k[odd]\n"
		    "1:	jrcxz 2f\n\t"
		    "adcxq (%[end],%[index]),%[even]\n\t"
		    "adoxq 8(%[end],%[index]),%[odd]\n\t"
		    "adcxq 16(%[end],%[index]),%[even]\n\t"
		    "adoxq 24(%[end],%[index]),%[odd]\n\t"
		    "leaq 64(%[index]),%[next]\n\t"
		    "adcxq 32(%[end],%[index]),%[even]\n\t"
		    "adoxq 40(%[end],%[index]),%[odd]\n\t"
		    "adcxq 48(%[end],%[index]),%[even]\n\t"
		    "adoxq 56(%[end],%[index]),%[odd]\n\t"
		    "movq %[next],%[index]\n\t"
		    "jmp 1b\n"
		    "2:	adoxq %[index],%[odd]\n\t"
		    "adcq %[odd],%[even]\n\t"
		    "adcq $0,%[even]"
		    : [even] "+r"(temp64), [odd] "=&r"(odd), [index] "+c"(index), [next] "=&r"(next)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
		len &= 63;
	} else if (likely(len >= 80)) {
		u64 temp64_2 = 0;

		do {
			temp64 = update_csum_40b(temp64, buff);
			temp64_2 = update_csum_40b(temp64_2, buff + 40);
			buff += 80;
			len -= 80;
		} while (len >= 80);

		asm("addq %1,%0\n\t"
		    "adcq $0,%0"
		    : "+r"(temp64)
		    : "r"(temp64_2));
	}

	/* An IPv6 header is 40 bytes: no tail then. */
	if (len >= 40) {
		temp64 = update_csum_40b(temp64, buff);
		len -= 40;
		if (!len)
			return csum_finalize_sum(temp64);
		buff += 40;
	}

	if (len & 32) {
		asm("addq (%[src]),%[res]\n\t"
		    "adcq 8(%[src]),%[res]\n\t"
		    "adcq 16(%[src]),%[res]\n\t"
		    "adcq 24(%[src]),%[res]\n\t"
		    "adcq $0,%[res]"
		    : [res] "+r"(temp64)
		    : [src] "r"(buff), "m"(*(const char(*)[32])buff));
		buff += 32;
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
