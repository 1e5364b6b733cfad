/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Returns in x0 how many bytes from x0 on stand before the first that is zero.
 *
 * Aligned pairs of words from the one on that holds the first byte: none crosses a page. Of a word
 * x the byte that is zero, and no byte before it, has its highest bit set in
 * (x - 0x01..01) & ~(x | 0x7f..7f).
 */
SYM_FUNC_START(__pi_strlen)
	bic	x1, x0, #15
	ldp	x2, x3, [x1], #16
	mov	x8, #0x0101010101010101
	/* Bytes before the string become such that none is zero. */
	lsl	x9, x0, #3
	mov	x10, #-1
	lsl	x10, x10, x9
	tst	x0, #8
	orn	x11, x2, x10
	orn	x12, x3, x10
	csinv	x2, x11, xzr, eq
	csel	x3, x3, x12, eq
	b	.Lstrlen_have_pair

	.p2align 4
.Lstrlen_pair:
	ldp	x2, x3, [x1], #16
.Lstrlen_have_pair:
	sub	x4, x2, x8
	sub	x6, x3, x8
	orr	x5, x2, #0x7f7f7f7f7f7f7f7f
	orr	x7, x3, #0x7f7f7f7f7f7f7f7f
	bic	x4, x4, x5
	bic	x6, x6, x7
	orr	x5, x4, x6
	cbz	x5, .Lstrlen_pair

	sub	x0, x1, x0
	sub	x0, x0, #16
	cbnz	x4, .Lstrlen_first_word
	add	x0, x0, #8
	mov	x4, x6
.Lstrlen_first_word:
	rev	x4, x4
	clz	x4, x4
	add	x0, x0, x4, lsr #3
	ret
SYM_FUNC_END(__pi_strlen)
