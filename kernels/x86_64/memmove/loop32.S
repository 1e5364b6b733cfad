/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/alternative.h>
#include <asm/cpufeatures.h>

/*
 * Moves rdx bytes from rsi to rdi, and returns rdi in rax. The sides may overlap: where the source
 * lies before the destination and reaches into it, the last bytes are moved first.
 *
 * Four words an iteration, all loaded before they are stored.
 */
SYM_FUNC_START(__memmove)
	movq %rdi,%rax

	/* Unsigned: it is less than the size where the destination begins inside of the source. */
	movq %rdi,%rcx
	subq %rsi,%rcx
	cmpq %rdx,%rcx
	jb .Lmove_backward

	ALTERNATIVE "", "jmp .Lmove_movsb", X86_FEATURE_FSRM
	cmpq $32,%rdx
	jb .Lmove_tail
	ALTERNATIVE "", "jmp .Lmove_movsb", X86_FEATURE_ERMS

	subq $32,%rdx
	.p2align 4
.Lmove_32:
	movq (%rsi),%r8
	movq 8(%rsi),%r9
	movq 16(%rsi),%r10
	movq 24(%rsi),%r11
	movq %r8,(%rdi)
	movq %r9,8(%rdi)
	movq %r10,16(%rdi)
	movq %r11,24(%rdi)
	addq $32,%rsi
	addq $32,%rdi
	subq $32,%rdx
	jae .Lmove_32
	addq $32,%rdx
	jmp .Lmove_tail

.Lmove_backward:
	cmpq $32,%rdx
	jb .Lmove_tail
	subq $32,%rdx
	.p2align 4
.Lmove_back_32:
	movq 24(%rsi,%rdx),%r8
	movq 16(%rsi,%rdx),%r9
	movq 8(%rsi,%rdx),%r10
	movq (%rsi,%rdx),%r11
	movq %r8,24(%rdi,%rdx)
	movq %r9,16(%rdi,%rdx)
	movq %r10,8(%rdi,%rdx)
	movq %r11,(%rdi,%rdx)
	subq $32,%rdx
	jae .Lmove_back_32
	addq $32,%rdx

.Lmove_tail:
	cmpl $16,%edx
	jb .Lmove_below_16
	movq (%rsi),%r8
	movq 8(%rsi),%r9
	movq -16(%rsi,%rdx),%r10
	movq -8(%rsi,%rdx),%r11
	movq %r8,(%rdi)
	movq %r9,8(%rdi)
	movq %r10,-16(%rdi,%rdx)
	movq %r11,-8(%rdi,%rdx)
	RET

.Lmove_below_16:
	cmpl $8,%edx
	jb .Lmove_below_8
	movq (%rsi),%r8
	movq -8(%rsi,%rdx),%r9
	movq %r8,(%rdi)
	movq %r9,-8(%rdi,%rdx)
	RET

.Lmove_below_8:
	cmpl $4,%edx
	jb .Lmove_below_4
	movl (%rsi),%r8d
	movl -4(%rsi,%rdx),%r9d
	movl %r8d,(%rdi)
	movl %r9d,-4(%rdi,%rdx)
	RET

.Lmove_below_4:
	cmpl $2,%edx
	jb .Lmove_below_2
	movzwl (%rsi),%r8d
	movzwl -2(%rsi,%rdx),%r9d
	movw %r8w,(%rdi)
	movw %r9w,-2(%rdi,%rdx)
	RET

.Lmove_below_2:
	testl %edx,%edx
	jz .Lmove_done
	movb (%rsi),%cl
	movb %cl,(%rdi)
.Lmove_done:
	RET

.Lmove_movsb:
	movq %rdx,%rcx
	rep movsb
	RET
SYM_FUNC_END(__memmove)
EXPORT_SYMBOL(__memmove)
