// SPDX-License-Identifier: GPL-2.0-or-later
#include <asm/checksum.h>
#include <asm/cpufeature.h>
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

static inline u64 plus_32(u64 total, const void *at)
{
	asm("addq (%[at]),%[total]\n\t"
	    "adcq 8(%[at]),%[total]\n\t"
	    "adcq 16(%[at]),%[total]\n\t"
	    "adcq 24(%[at]),%[total]\n\t"
	    "adcq $0,%[total]"
	    : [total] "+r"(total)
	    : [at] "r"(at), "m"(*(const u8(*)[32])at));
	return total;
}

/* Each word is an operand of its own, so that the compiler may address it from any base. */
static inline u64 plus_40(u64 total, const u64 *word)
{
	asm("addq %[a],%[total]\n\t"
	    "adcq %[b],%[total]\n\t"
	    "adcq %[c],%[total]\n\t"
	    "adcq %[d],%[total]\n\t"
	    "adcq %[e],%[total]\n\t"
	    "adcq $0,%[total]"
	    : [total] "+r"(total)
	    : [a] "m"(word[0]), [b] "m"(word[1]), [c] "m"(word[2]), [d] "m"(word[3]),
	      [e] "m"(word[4]));
	return total;
}

static inline __wsum half(u64 total)
{
	return (__force __wsum)((total + ror64(total, 32)) >> 32);
}

/*
 * Add the bytes of buff to a ones' complement sum of 32 bits. With ADX two chains run through the
 * whole buffer side by side, one in the carry and one in the overflow flag; the loop counts with
 * lea and ends with jrcxz, which leave both alone. Other CPUs run two chains of 40 bytes.
 */
__wsum csum_partial(const void *buff, int len, __wsum sum)
{
	u64 total = (__force u64)sum;

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
		    : [even] "+r"(total), [odd] "=&r"(odd), [index] "+c"(index), [next] "=&r"(next)
		    : [end] "r"(end), "m"(*(const char(*)[])buff));
		buff = end;
		len &= 63;
	} else if (likely(len >= 80)) {
		u64 other = 0;

		for (; len >= 80; len -= 80, buff += 80) {
			total = plus_40(total, buff);
			other = plus_40(other, buff + 40);
		}
		total = plus_word(total, other);
	}
	if (len >= 40) {
		total = plus_40(total, buff);
		len -= 40;
		if (len == 0)
			return half(total);
		buff += 40;
	}
	if (len & 32) {
		total = plus_32(total, buff);
		buff += 32;
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
