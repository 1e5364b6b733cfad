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
 * From 64 bytes on four words an iteration.
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
0:	ALTERNATIVE "jmp .Llarge_words", "rep movsb", X86_FEATURE_ERMS
1:	RET

	_ASM_EXTABLE_UA( 0b, 1b)

.Llarge_words:
	/* One iteration ahead, so that the borrow ends the loop. */
	subq $32,%rcx

	.p2align 4
.Lfour_words:
10:	movq (%rsi),%rax
11:	movq %rax,(%rdi)
12:	movq 8(%rsi),%rax
13:	movq %rax,8(%rdi)
14:	movq 16(%rsi),%rax
15:	movq %rax,16(%rdi)
16:	movq 24(%rsi),%rax
17:	movq %rax,24(%rdi)
	addq $32,%rsi
	addq $32,%rdi
	subq $32,%rcx
	jae .Lfour_words

	addl $32,%ecx
	je .Lexit
	cmpl $8,%ecx
	jae .Lword
	jmp .Lcopy_user_tail

	/* Up to 31 bytes are copied a second time on the way to the exact count. */
.Lfour_words_fault:
	addq $32,%rcx
	jmp .Lcopy_user_tail

	_ASM_EXTABLE_UA(10b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(11b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(12b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(13b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(14b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(15b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(16b, .Lfour_words_fault)
	_ASM_EXTABLE_UA(17b, .Lfour_words_fault)
SYM_FUNC_END(rep_movs_alternative)
EXPORT_SYMBOL(rep_movs_alternative)
