/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * void ONCE(struct call *, unsigned long times) and LOOP, likewise: call TARGET as its contract
 * has it. The file that includes this defines them, IN_DST to IN_SUM (registers, where the
 * contract has them), OUT_RESULT, ZEROED (a register that is zero at entry), and GATED where the
 * caller opens and closes user memory, as the kernel's own callers of TARGET do.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/alternative.h>
#include <asm/smap.h>
#include "call.h"

	.macro	CALLER name, flags
SYM_FUNC_START(\name)
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	push	%rdi
	mov	CALL_DST(%rdi), %rbx
	mov	CALL_SRC(%rdi), %r12
	mov	CALL_COUNT(%rdi), %r13
	mov	CALL_SUM(%rdi), %r14
	mov	%rsi, %r15
	.balign	64
.Lagain\@:
#ifdef ZEROED
	mov	$0, ZEROED
#endif
#ifdef IN_DST
	mov	%rbx, IN_DST
#endif
#ifdef IN_SRC
	mov	%r12, IN_SRC
#endif
#ifdef IN_COUNT
	mov	%r13, IN_COUNT
#endif
#ifdef IN_SUM
	mov	%r14, IN_SUM
#endif
#ifdef GATED
	ASM_STAC
#endif
	call	TARGET
	.if	\flags
	pushf
	pop	%rbp
	cld
	/* A routine that left it open must not leave it to us. */
	ASM_CLAC
	.endif
#ifdef GATED
	ASM_CLAC
#endif
	dec	%r15
	jnz	.Lagain\@
	pop	%rdi
	mov	OUT_RESULT, CALL_RESULT(%rdi)
	mov	%rbp, CALL_FLAGS(%rdi)
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	RET
SYM_FUNC_END(\name)
	/* objtool holds calls with user memory open to a list of names; the flags are checked. */
	STACK_FRAME_NON_STANDARD \name
	.endm

	.text
	CALLER	ONCE, 1
	CALLER	LOOP, 0
