/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

/*
 * Clears rcx bytes at rdi, which may fault; rax is zero and stays so. Returns in rcx how many
 * bytes are not cleared. Changes rdi alone: callers switch between this and a plain rep stosb.
 *
 * From 64 bytes on eight words an iteration.
 */
SYM_FUNC_START(rep_stos_alternative)
	cmpq $64,%rcx
	jae .Lunrolled

	cmpl $8,%ecx
	jae .Lword

	testl %ecx,%ecx
	je .Lexit

	/* Byte by byte: what is left of a word, and the exact count after a fault. */
.Lclear_user_tail:
0:	movb %al,(%rdi)
	incq %rdi
	decq %rcx
	jnz .Lclear_user_tail
.Lexit:
	RET

	_ASM_EXTABLE_UA( 0b, .Lexit)

.Lword:
1:	movq %rax,(%rdi)
	addq $8,%rdi
	subl $8,%ecx
	je .Lexit
	cmpl $8,%ecx
	jae .Lword
	jmp .Lclear_user_tail

	_ASM_EXTABLE_UA( 1b, .Lclear_user_tail)

	.p2align 4
.Lunrolled:
10:	movq %rax,(%rdi)
11:	movq %rax,8(%rdi)
12:	movq %rax,16(%rdi)
13:	movq %rax,24(%rdi)
14:	movq %rax,32(%rdi)
15:	movq %rax,40(%rdi)
16:	movq %rax,48(%rdi)
17:	movq %rax,56(%rdi)
	addq $64,%rdi
	subq $64,%rcx
	cmpq $64,%rcx
	jae .Lunrolled
	cmpl $8,%ecx
	jae .Lword
	testl %ecx,%ecx
	jne .Lclear_user_tail
	RET

	/* Up to 63 bytes are cleared a second time on the way to the exact count. */
	_ASM_EXTABLE_UA(10b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(11b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(12b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(13b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(14b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(15b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(16b, .Lclear_user_tail)
	_ASM_EXTABLE_UA(17b, .Lclear_user_tail)
SYM_FUNC_END(rep_stos_alternative)
EXPORT_SYMBOL(rep_stos_alternative)
