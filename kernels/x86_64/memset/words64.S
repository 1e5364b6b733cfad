/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>

/*
 * Sets rdx bytes at rdi to the lowest byte of esi, and returns rdi in rax.
 *
 * The byte is spread over a word, and the destination aligned by a word that may be stored in part
 * again. Then come eight words an iteration, words and bytes.
 */
SYM_FUNC_START_LOCAL(memset_orig)
	movq %rdi,%r10

	movzbl %sil,%ecx
	movabsq $0x0101010101010101,%rax
	imulq %rcx,%rax

	movl %edi,%r9d
	andl $7,%r9d
	jnz .Lset_unaligned
.Lset_aligned:
	movq %rdx,%rcx
	shrq $6,%rcx
	jz .Lset_words

	.p2align 4
.Lset_64:
	movq %rax,(%rdi)
	movq %rax,8(%rdi)
	movq %rax,16(%rdi)
	movq %rax,24(%rdi)
	movq %rax,32(%rdi)
	movq %rax,40(%rdi)
	movq %rax,48(%rdi)
	movq %rax,56(%rdi)
	addq $64,%rdi
	decq %rcx
	jnz .Lset_64

.Lset_words:
	movl %edx,%ecx
	shrl $3,%ecx
	andl $7,%ecx
	jz .Lset_tail
.Lset_word:
	movq %rax,(%rdi)
	addq $8,%rdi
	decl %ecx
	jnz .Lset_word

.Lset_tail:
	andl $7,%edx
	jz .Lset_done
.Lset_byte:
	movb %al,(%rdi)
	incq %rdi
	decl %edx
	jnz .Lset_byte
.Lset_done:
	movq %r10,%rax
	RET

.Lset_unaligned:
	cmpq $8,%rdx
	jb .Lset_tail
	movq %rax,(%rdi)
	leaq -8(%r9),%r8
	subq %r8,%rdi
	addq %r8,%rdx
	jmp .Lset_aligned
SYM_FUNC_END(memset_orig)
