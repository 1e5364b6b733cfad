/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extable.h"

FUNCTION test_scan
	xorl	%eax, %eax
	xorl	%edx, %edx
	testq	%rsi, %rsi
	jz	.Lend
.Lbyte:
1:	cmpb	$0, (%rdi,%rax)
	je	.Lend
	incq	%rax
	cmpq	%rsi, %rax
	jb	.Lbyte
.Lend:
	ret
.Lfault:
	movl	$-14, %edx
	ret

	EXTABLE 1b, .Lfault
END test_scan
