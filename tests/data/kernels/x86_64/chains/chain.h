/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clear a byte an iteration beside 16 dependent instructions, whose latency is all that counts. */
#include "../fixture/extable.h"

	.macro CHAIN instruction:vararg
FUNCTION test_chain
	movl	$3, %eax
	movl	$5, %edx
	testq	%rcx, %rcx
	je	.Ldone
	.balign	64
.Lstep:
	.rept	16
	\instruction
	.endr
	movb	%r8b, (%rdi)
	addq	$1, %rdi
	subq	$1, %rcx
	jne	.Lstep
.Ldone:
	ret
END test_chain
	.endm
