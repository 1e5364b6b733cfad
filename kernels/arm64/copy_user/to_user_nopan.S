/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>

#include <asm/asm-uaccess.h>
#include <asm/assembler.h>
#include <asm/cache.h>

/*
 * Copies x2 bytes from the kernel at x1 to user space at x0. Returns in x0 how many bytes
 * are not copied, or more than that after a fault.
 */
	.macro ldrb1 reg, ptr, val
	ldrb	\reg, [\ptr], \val
	.endm

	.macro strb1 reg, ptr, val
	user_ldst 9998f, sttrb, \reg, \ptr, \val
	.endm

	.macro ldrh1 reg, ptr, val
	ldrh	\reg, [\ptr], \val
	.endm

	.macro strh1 reg, ptr, val
	user_ldst 9997f, sttrh, \reg, \ptr, \val
	.endm

	.macro ldr1 reg, ptr, val
	ldr	\reg, [\ptr], \val
	.endm

	.macro str1 reg, ptr, val
	user_ldst 9997f, sttr, \reg, \ptr, \val
	.endm

	.macro ldp1 reg1, reg2, ptr, val
	ldp	\reg1, \reg2, [\ptr], \val
	.endm

	.macro stp1 reg1, reg2, ptr, val
	user_stp 9997f, \reg1, \reg2, \ptr, \val
	.endm

	.macro ldp_at reg1, reg2, ptr, offset
	ldp	\reg1, \reg2, [\ptr, \offset]
	.endm

	.macro stp_at reg1, reg2, ptr, offset
USER(9997f, sttr \reg1, [\ptr, \offset])
USER(9997f, sttr \reg2, [\ptr, \offset + 8])
	.endm

	.macro ldp_nopan reg1, reg2, ptr, offset
	ldp	\reg1, \reg2, [\ptr, \offset]
	.endm

	.macro stp_nopan reg1, reg2, ptr, offset
USER(9997f, stp \reg1, \reg2, [\ptr, \offset])
	.endm

end	.req	x5
srcin	.req	x15
SYM_FUNC_START(__arch_copy_to_user)
	add	end, x0, x2
	mov	srcin, x1
#include "copy_template_nopan.S"
	mov	x0, #0
	ret

	/* A fault before anything is copied: one byte may be possible still. */
9997:	cmp	dst, dstin
	b.ne	9998f
	ldrb	tmp1w, [srcin]
USER(9998f, sttrb tmp1w, [dst])
	add	dst, dst, #1
9998:	sub	x0, end, dst
	ret
SYM_FUNC_END(__arch_copy_to_user)
EXPORT_SYMBOL(__arch_copy_to_user)
