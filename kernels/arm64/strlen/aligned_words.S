/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Returns in x0 how many bytes from x0 on stand before the first that is zero.
 *
 * Aligned words from the one on that holds the first byte: none crosses a page. Of a word x the
 * byte that is zero, and no byte before it, has its highest bit set in
 * (x - 0x01..01) & ~(x | 0x7f..7f).
 */
SYM_FUNC_START(__pi_strlen)
	bic	x1, x0, #7
	ldr	x2, [x1], #8
	mov	x8, #0x0101010101010101
	/* Bytes before the string become such that none is zero. */
	lsl	x9, x0, #3
	mov	x10, #-1
	lsl	x10, x10, x9
	orn	x2, x2, x10
	b	.Lstrlen_have_word

	.p2align 4
.Lstrlen_word:
	ldr	x2, [x1], #8
.Lstrlen_have_word:
	sub	x4, x2, x8
	orr	x5, x2, #0x7f7f7f7f7f7f7f7f
	bics	x4, x4, x5
	b.eq	.Lstrlen_word

	sub	x0, x1, x0
	sub	x0, x0, #8
	rev	x4, x4
	clz	x4, x4
	add	x0, x0, x4, lsr #3
	ret
SYM_FUNC_END(__pi_strlen)
