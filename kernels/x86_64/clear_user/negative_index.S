/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

/*
 * Clears rcx bytes at rdi, which may fault; rax is zero and stays so. Returns in rcx how many
 * bytes are not cleared. Changes rdi alone: callers switch between this and a plain rep stosb.
 *
 * One word an iteration. The pointer stands at the end of the buffer and a negative index runs up
 * to zero; the store lies between the add and the branch, which so stay two uops.
 */
SYM_FUNC_START(rep_stos_alternative)
	cmpq $8,%rcx
	jae .Lqwords

	testl %ecx,%ecx
	je .Lexit

	/* Byte by byte: less than a word, and the exact count after a fault. */
.Lclear_user_tail:
0:	movb %al,(%rdi)
	incq %rdi
	decq %rcx
	jnz .Lclear_user_tail
.Lexit:
	RET

	_ASM_EXTABLE_UA( 0b, .Lexit)

.Lqwords:
	/* The first word as it lies; whole words up to the end follow it. */
1:	movq %rax,(%rdi)

	_ASM_EXTABLE_UA( 1b, .Lclear_user_tail)

	addq %rcx,%rdi
	andq $-8,%rcx
	negq %rcx

	.p2align 4
.Lindex:
	addq $8,%rcx
2:	movq %rax,-8(%rdi,%rcx)
	jnz .Lindex
	RET

	/* From index and end back to a pointer and a count. */
.Lindex_fault:
	subq $8,%rcx
	addq %rcx,%rdi
	negq %rcx
	jmp .Lclear_user_tail

	_ASM_EXTABLE_UA( 2b, .Lindex_fault)
SYM_FUNC_END(rep_stos_alternative)
EXPORT_SYMBOL(rep_stos_alternative)
