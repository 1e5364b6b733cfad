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
 * No loop over single bytes but after a fault: every size ends with one access that reaches back
 * over bytes already copied. From 64 bytes on the words go by rep movsq, the destination aligned.
 */
SYM_FUNC_START(rep_movs_alternative)
	cmpq $64,%rcx
	jae .Llarge

	cmpl $8,%ecx
	jae .Lword

	cmpl $4,%ecx
	jae .Lfour_to_seven

	cmpl $2,%ecx
	jae .Ltwo_or_three

	testl %ecx,%ecx
	je .Lexit

	/* One byte, or after a fault all bytes up to the one that cannot be copied. */
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

.Ltwo_or_three:
10:	movzwl (%rsi),%eax
11:	movw %ax,(%rdi)
12:	movzwl -2(%rsi,%rcx),%eax
13:	movw %ax,-2(%rdi,%rcx)
	xorl %ecx,%ecx
	RET

	_ASM_EXTABLE_UA(10b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(11b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(12b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(13b, .Lcopy_user_tail)

.Lfour_to_seven:
14:	movl (%rsi),%eax
15:	movl %eax,(%rdi)
16:	movl -4(%rsi,%rcx),%eax
17:	movl %eax,-4(%rdi,%rcx)
	xorl %ecx,%ecx
	RET

	_ASM_EXTABLE_UA(14b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(15b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(16b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(17b, .Lcopy_user_tail)

	/* rcx runs 8 behind the count, down to -7 to 0: where the last word starts from here. */
.Lword:
	subq $8,%rcx

	.p2align 4
.Lnext_word:
20:	movq (%rsi),%rax
21:	movq %rax,(%rdi)
	addq $8,%rsi
	addq $8,%rdi
	subq $8,%rcx
	ja .Lnext_word
22:	movq (%rsi,%rcx),%rax
23:	movq %rax,(%rdi,%rcx)
	xorl %ecx,%ecx
	RET

.Lword_fault:
	addq $8,%rcx
	jne .Lcopy_user_tail
	RET

	_ASM_EXTABLE_UA(20b, .Lword_fault)
	_ASM_EXTABLE_UA(21b, .Lword_fault)
	_ASM_EXTABLE_UA(22b, .Lword_fault)
	_ASM_EXTABLE_UA(23b, .Lword_fault)

.Llarge:
0:	ALTERNATIVE "jmp .Llarge_movsq", "rep movsb", X86_FEATURE_ERMS
1:	RET

	_ASM_EXTABLE_UA( 0b, 1b)

.Llarge_movsq:
	/* The first word as it lies; the next store is aligned. */
0:	movq (%rsi),%rax
1:	movq %rax,(%rdi)

	_ASM_EXTABLE_UA( 0b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA( 1b, .Lcopy_user_tail)

	/* 1 to 8 bytes, up to the next multiple of 8, are done. */
	leaq 8(%rdi),%rax
	andq $-8,%rax
	subq %rdi,%rax

	addq %rax,%rdi
	addq %rax,%rsi
	subq %rax,%rcx

	/* Words into rcx, the bytes behind them into rax. */
	movq %rcx,%rax
	shrq $3,%rcx
	andl $7,%eax
0:	rep movsq

	/* The word that ends where the buffers end. */
1:	movq -8(%rsi,%rax),%rcx
2:	movq %rcx,-8(%rdi,%rax)
	xorl %ecx,%ecx
	RET

	/* Words that are left (none where the last one faults), and the bytes behind them. */
3:	leaq (%rax,%rcx,8),%rcx
	jmp .Lcopy_user_tail
4:	movl %eax,%ecx
	testl %ecx,%ecx
	jne .Lcopy_user_tail
	RET

	_ASM_EXTABLE_UA( 0b, 3b)
	_ASM_EXTABLE_UA( 1b, 4b)
	_ASM_EXTABLE_UA( 2b, 4b)
SYM_FUNC_END(rep_movs_alternative)
EXPORT_SYMBOL(rep_movs_alternative)
