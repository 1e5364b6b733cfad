/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/cpufeatures.h>
#include <asm/alternative.h>
#include <asm/asm.h>

/*
 * Copies rcx bytes from rsi to rdi; either side may fault. Returns in rcx how many bytes are
 * not copied. Changes rax, rsi and rdi: callers switch between this and a plain rep movsb.
 *
 * From 64 bytes on the words go by rep movsq.
 */
SYM_FUNC_START(rep_movs_alternative)
	cmpq $64,%rcx
	jae .Llarge

	cmpl $8,%ecx
	jae .Lword

	testl %ecx,%ecx
	je .Lexit

	/* Byte by byte: short copies, and the exact count after a fault. */
.Lcopy_user_tail:
0:	movb (%rsi),%al
1:	movb %al,(%rdi)
	incq %rdi
	incq %rsi
	decq %rcx
	jne .Lcopy_user_tail
.Lexit:
	RET

	_ASM_EXTABLE_UA( 0b, .Lexit)
	_ASM_EXTABLE_UA( 1b, .Lexit)

	.p2align 4
.Lword:
2:	movq (%rsi),%rax
3:	movq %rax,(%rdi)
	addq $8,%rsi
	addq $8,%rdi
	subl $8,%ecx
	je .Lexit
	cmpl $8,%ecx
	jae .Lword
	jmp .Lcopy_user_tail

	_ASM_EXTABLE_UA( 2b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA( 3b, .Lcopy_user_tail)

.Llarge:
0:	ALTERNATIVE "jmp .Llarge_movsq", "rep movsb", X86_FEATURE_ERMS
1:	RET

	_ASM_EXTABLE_UA( 0b, 1b)

.Llarge_movsq:
	/* Words into rcx, the bytes behind them into rax. */
	movq %rcx,%rax
	shrq $3,%rcx
	andl $7,%eax
0:	rep movsq
	movl %eax,%ecx
	testl %ecx,%ecx
	jne .Lcopy_user_tail
	RET

	/* Words that are left, and the bytes behind them. */
1:	leaq (%rax,%rcx,8),%rcx
	jmp .Lcopy_user_tail

	_ASM_EXTABLE_UA( 0b, 1b)
SYM_FUNC_END(rep_movs_alternative)
EXPORT_SYMBOL(rep_movs_alternative)
