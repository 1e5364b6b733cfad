/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

/*
 * Clears rcx bytes at rdi, which may fault; rax is zero and stays so. Returns in rcx how many
 * bytes are not cleared. Changes rdi alone: callers switch between this and a plain rep stosb.
 *
 * One word an iteration, the loop aligned: its 13 bytes lie in one 16-byte fetch window.
 */
SYM_FUNC_START(rep_stos_alternative)
	/* One word ahead, so that the borrow ends the loop. */
	subq $8,%rcx
	jb .Lrest

	.p2align 4
.Lqwords:
	movq %rax,(%rdi)
	addq $8,%rdi
	subq $8,%rcx
	jae .Lqwords

	/* Also after a fault: rcx is 8 short of what is left. */
.Lrest:
	addq $8,%rcx
	je .Lexit

.Lbytes:
	movb %al,(%rdi)
	incq %rdi
	decq %rcx
	jnz .Lbytes
.Lexit:
	RET

	_ASM_EXTABLE_UA(.Lqwords, .Lrest)
	_ASM_EXTABLE_UA(.Lbytes, .Lexit)
SYM_FUNC_END(rep_stos_alternative)
EXPORT_SYMBOL(rep_stos_alternative)
