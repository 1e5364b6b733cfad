/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/alternative.h>
#include <asm/cpufeatures.h>

/*
 * Moves rdx bytes from rsi to rdi, and returns rdi in rax. The sides may overlap: where the source
 * lies before the destination and reaches into it, the last bytes are moved first.
 *
 * Two words an iteration. The two at the far end are loaded before the first store, and stored
 * last: the loop ends where no more than these are left.
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

	movq -16(%rsi,%rdx),%r10
	movq -8(%rsi,%rdx),%r11
	leaq -16(%rdi,%rdx),%rcx
	subq %rdi,%rsi
	.p2align 4
.Lmove_16:
	movq (%rdi,%rsi),%r8
	movq 8(%rdi,%rsi),%r9
	movq %r8,(%rdi)
	movq %r9,8(%rdi)
	addq $16,%rdi
	cmpq %rcx,%rdi
	jb .Lmove_16
	movq %r10,(%rcx)
	movq %r11,8(%rcx)
	RET

.Lmove_backward:
	cmpq $32,%rdx
	jb .Lmove_tail
	movq (%rsi),%r10
	movq 8(%rsi),%r11
	subq $16,%rdx
	.p2align 4
.Lmove_back_16:
	movq 8(%rsi,%rdx),%r8
	movq (%rsi,%rdx),%r9
	movq %r8,8(%rdi,%rdx)
	movq %r9,(%rdi,%rdx)
	subq $16,%rdx
	ja .Lmove_back_16
	movq %r10,(%rdi)
	movq %r11,8(%rdi)
	RET

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
