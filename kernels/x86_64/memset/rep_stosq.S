/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>

/*
 * Sets rdx bytes at rdi to the lowest byte of esi, and returns rdi in rax.
 *
 * rep stosq stores whole words up to the last one, which is stored by itself where the size ends.
 */
SYM_FUNC_START_LOCAL(memset_orig)
	movq %rdi,%r10
	movzbl %sil,%ecx
	movabsq $0x0101010101010101,%rax
	imulq %rcx,%rax

	cmpq $8,%rdx
	jb .Lset_bytes

	movq %rax,-8(%rdi,%rdx)
	leaq -1(%rdx),%rcx
	shrq $3,%rcx
	rep stosq
	movq %r10,%rax
	RET

.Lset_bytes:
	testl %edx,%edx
	jz .Lset_done
.Lset_byte:
	movb %al,(%rdi)
	incq %rdi
	decl %edx
	jnz .Lset_byte
.Lset_done:
	movq %r10,%rax
	RET
SYM_FUNC_END(memset_orig)
