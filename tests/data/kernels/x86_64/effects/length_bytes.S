/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extable.h"

FUNCTION test_length
	xorl	%eax, %eax
.Lbyte:
	cmpq	%rsi, %rax
	jae	.Ldone
	cmpb	$0, (%rdi,%rax)
	je	.Ldone
	incq	%rax
	jmp	.Lbyte
.Ldone:
	ret
END test_length
