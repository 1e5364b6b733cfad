/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * void ONCE(struct call *, unsigned long times) and LOOP, likewise: call TARGET as its contract
 * has it. The file that includes this defines them, IN_DST to IN_COUNT (registers) and OUT_RESULT.
 */
#include <linux/linkage.h>
#include "call.h"

	.macro	CALLER name
SYM_FUNC_START(\name)
	stp	x29, x30, [sp, #-64]!
	mov	x29, sp
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	mov	x19, x0
	mov	x20, x1
	ldr	x21, [x19, #CALL_DST]
	ldr	x22, [x19, #CALL_SRC]
	ldr	x23, [x19, #CALL_COUNT]
	.balign	64
.Lagain\@:
	mov	IN_DST, x21
	mov	IN_SRC, x22
	mov	IN_COUNT, x23
	bl	TARGET
	subs	x20, x20, #1
	b.ne	.Lagain\@
	str	OUT_RESULT, [x19, #CALL_RESULT]
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x29, x30, [sp], #64
	ret
SYM_FUNC_END(\name)
	.endm

	.text
	CALLER	ONCE
	CALLER	LOOP
