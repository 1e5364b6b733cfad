/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

/*
 * Clears rcx bytes at rdi, which may fault; rax is zero and stays so. Returns in rcx how many
 * bytes are not cleared. Changes rdi alone: callers switch between this and a plain rep stosb.
 *
 * From a word on by rep stosq.
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
	subq %rcx,%rdi
	shrq $3,%rcx
2:	rep stosq
	RET

	/* Words that are left, as bytes. */
.Lstosq_fault:
	shlq $3,%rcx
	jmp .Lclear_user_tail

	_ASM_EXTABLE_UA( 2b, .Lstosq_fault)
SYM_FUNC_END(rep_stos_alternative)
EXPORT_SYMBOL(rep_stos_alternative)
