/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_WORD_AT_A_TIME_H
#define LW_ASM_WORD_AT_A_TIME_H

#include <asm/asm.h>

/*
 * Load a word that may reach into a page that is not there; what lies there reads as zero. The
 * kernel's fault handler puts the word together; here the fixup does, out of the aligned word.
 */
static inline unsigned long load_unaligned_zeropad(const void *addr)
{
	unsigned long word;

	/* clang-format off */
	asm goto("1:	mov %[mem],%[word]\n"
		 _ASM_EXTABLE(1b, %l[fault])
		 : [word] "=r"(word)
		 : [mem] "m"(*(const unsigned long *)addr)
		 :
		 : fault);
	/* clang-format on */
	return word;
fault:
	word = *(const unsigned long *)((unsigned long)addr & -sizeof(word));
	return word >> ((unsigned long)addr % sizeof(word) * 8);
}

#endif
