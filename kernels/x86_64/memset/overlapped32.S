/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>

/*
 * Sets rdx bytes at rdi to the lowest byte of esi, and returns rdi in rax.
 *
 * Four words an iteration; the last ones of every size overlap what is set already.
 */
SYM_FUNC_START_LOCAL(memset_orig)
	movzbl %sil,%ecx
	movabsq $0x0101010101010101,%rax
	imulq %rcx,%rax

	cmpq $32,%rdx
	jb .Lset_below_32

	movq %rdi,%rcx
	leaq -32(%rdi,%rdx),%rdx
	jmp .Lset_last_32

	.p2align 4
.Lset_32:
	movq %rax,(%rcx)
	movq %rax,8(%rcx)
	movq %rax,16(%rcx)
	movq %rax,24(%rcx)
	addq $32,%rcx
.Lset_last_32:
	cmpq %rdx,%rcx
	jb .Lset_32
	movq %rax,(%rdx)
	movq %rax,8(%rdx)
	movq %rax,16(%rdx)
	movq %rax,24(%rdx)
	movq %rdi,%rax
	RET

.Lset_below_32:
	cmpl $16,%edx
	jb .Lset_below_16
	movq %rax,(%rdi)
	movq %rax,8(%rdi)
	movq %rax,-16(%rdi,%rdx)
	movq %rax,-8(%rdi,%rdx)
	movq %rdi,%rax
	RET

.Lset_below_16:
	cmpl $8,%edx
	jb .Lset_below_8
	movq %rax,(%rdi)
	movq %rax,-8(%rdi,%rdx)
	movq %rdi,%rax
	RET

.Lset_below_8:
	cmpl $4,%edx
	jb .Lset_below_4
	movl %eax,(%rdi)
	movl %eax,-4(%rdi,%rdx)
	movq %rdi,%rax
	RET

.Lset_below_4:
	testl %edx,%edx
	jz .Lset_done
	movb %al,(%rdi)
	testb $2,%dl
	jz .Lset_done
	movw %ax,-2(%rdi,%rdx)
.Lset_done:
	movq %rdi,%rax
	RET
SYM_FUNC_END(memset_orig)
