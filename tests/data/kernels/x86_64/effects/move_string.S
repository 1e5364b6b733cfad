/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extable.h"

/* From the end where the source overlaps from before the destination: dst - src < count. */
FUNCTION test_move
	movq	%rdx, %rcx
	movq	%rdi, %rax
	subq	%rsi, %rax
	cmpq	%rdx, %rax
	jb	.Lbackward
1:	rep movsb
.Ldone:
	movq	%rcx, %rax
	ret

.Lbackward:
	leaq	-1(%rdi,%rdx), %rdi
	leaq	-1(%rsi,%rdx), %rsi
	std
2:	rep movsb
.Lbackward_done:
	cld
	movq	%rcx, %rax
	ret

	EXTABLE 1b, .Ldone
	EXTABLE 2b, .Lbackward_done
END test_move
