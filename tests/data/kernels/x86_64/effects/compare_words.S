/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extable.h"

/* What follows words that are alike is compared byte by byte, and so is a word that faults. */
FUNCTION test_compare
	xorl	%eax, %eax
	xorl	%ecx, %ecx
.Lword:
	cmpq	$8, %rdx
	jb	.Lbyte
1:	movq	(%rdi), %r8
2:	cmpq	(%rsi), %r8
	jne	.Lbyte
	addq	$8, %rdi
	addq	$8, %rsi
	subq	$8, %rdx
	jmp	.Lword
.Lbyte:
	testq	%rdx, %rdx
	jz	.Ldone
3:	movzbl	(%rdi), %r8d
4:	cmpb	(%rsi), %r8b
	jne	.Ldiffer
	incq	%rdi
	incq	%rsi
	decq	%rdx
	jmp	.Lbyte
.Ldiffer:
	sbbl	%eax, %eax
	orl	$1, %eax
.Ldone:
	ret
.Lfault:
	movl	$-14, %ecx
	ret

	EXTABLE 1b, .Lbyte
	EXTABLE 2b, .Lbyte
	EXTABLE 3b, .Lfault
	EXTABLE 4b, .Lfault
END test_compare
