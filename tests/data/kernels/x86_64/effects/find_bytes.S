/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extable.h"

FUNCTION test_find
	xorl	%eax, %eax
	movl	%esi, %ecx
	testq	%rdx, %rdx
	jz	.Ldone
.Lbyte:
	cmpb	%cl, (%rdi)
	je	.Lfound
	incq	%rdi
	decq	%rdx
	jnz	.Lbyte
.Ldone:
	ret
.Lfound:
	movq	%rdi, %rax
	ret
END test_find
