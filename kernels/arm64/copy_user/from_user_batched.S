/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>

#include <asm/asm-uaccess.h>
#include <asm/assembler.h>
#include <asm/cache.h>

/*
 * Copies x2 bytes from user space at x1 to the kernel at x0. Returns in x0 how many bytes
 * are not copied, or more than that after a fault.
 */
	.macro ldrb1 reg, ptr, val
	user_ldst 9998f, ldtrb, \reg, \ptr, \val
	.endm

	.macro strb1 reg, ptr, val
	strb	\reg, [\ptr], \val
	.endm

	.macro ldrh1 reg, ptr, val
	user_ldst 9997f, ldtrh, \reg, \ptr, \val
	.endm

	.macro strh1 reg, ptr, val
	strh	\reg, [\ptr], \val
	.endm

	.macro ldr1 reg, ptr, val
	user_ldst 9997f, ldtr, \reg, \ptr, \val
	.endm

	.macro str1 reg, ptr, val
	str	\reg, [\ptr], \val
	.endm

	.macro ldp1 reg1, reg2, ptr, val
	user_ldp 9997f, \reg1, \reg2, \ptr, \val
	.endm

	.macro stp1 reg1, reg2, ptr, val
	stp	\reg1, \reg2, [\ptr], \val
	.endm

	.macro ldp_at reg1, reg2, ptr, offset
USER(9997f, ldtr \reg1, [\ptr, \offset])
USER(9997f, ldtr \reg2, [\ptr, \offset + 8])
	.endm

	.macro stp_at reg1, reg2, ptr, offset
	stp	\reg1, \reg2, [\ptr, \offset]
	.endm

end	.req	x5
srcin	.req	x15
SYM_FUNC_START(__arch_copy_from_user)
	add	end, x0, x2
	mov	srcin, x1
#include "copy_template_batched.S"
	mov	x0, #0
	ret

	/* A fault before anything is copied: one byte may be possible still. */
9997:	cmp	dst, dstin
	b.ne	9998f
USER(9998f, ldtrb tmp1w, [srcin])
	strb	tmp1w, [dst], #1
9998:	sub	x0, end, dst
	ret
SYM_FUNC_END(__arch_copy_from_user)
EXPORT_SYMBOL(__arch_copy_from_user)
