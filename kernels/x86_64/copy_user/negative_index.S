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
 * From 64 bytes on two words an iteration. Both pointers stand at the ends of the buffers and a
 * negative index runs up to zero, so that the loop needs one add and no compare.
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
0:	ALTERNATIVE "jmp .Llarge_index", "rep movsb", X86_FEATURE_ERMS
1:	RET

	_ASM_EXTABLE_UA( 0b, 1b)

.Llarge_index:
	/* The first 16 bytes as they lie; the loop covers whole pairs up to the ends. */
10:	movq (%rsi),%rax
11:	movq %rax,(%rdi)
12:	movq 8(%rsi),%rax
13:	movq %rax,8(%rdi)

	_ASM_EXTABLE_UA(10b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(11b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(12b, .Lcopy_user_tail)
	_ASM_EXTABLE_UA(13b, .Lcopy_user_tail)

	addq %rcx,%rsi
	addq %rcx,%rdi
	andq $-16,%rcx
	negq %rcx

	.p2align 4
.Lpair:
20:	movq (%rsi,%rcx),%rax
21:	movq %rax,(%rdi,%rcx)
	addq $16,%rcx
22:	movq -8(%rsi,%rcx),%rax
23:	movq %rax,-8(%rdi,%rcx)
	jnz .Lpair
	RET

	/* From index and ends back to pointers and a count. */
.Lsecond_of_pair:
	subq $8,%rcx
.Lfirst_of_pair:
	addq %rcx,%rsi
	addq %rcx,%rdi
	negq %rcx
	jmp .Lcopy_user_tail

	_ASM_EXTABLE_UA(20b, .Lfirst_of_pair)
	_ASM_EXTABLE_UA(21b, .Lfirst_of_pair)
	_ASM_EXTABLE_UA(22b, .Lsecond_of_pair)
	_ASM_EXTABLE_UA(23b, .Lsecond_of_pair)
SYM_FUNC_END(rep_movs_alternative)
EXPORT_SYMBOL(rep_movs_alternative)
