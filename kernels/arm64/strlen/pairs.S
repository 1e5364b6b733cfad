/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Returns in x0 how many bytes from x0 on stand before the first that is zero.
 *
 * Of a word x the byte that is zero, and no byte before it, has its highest bit set in
 * (x - 0x01..01) & ~(x | 0x7f..7f). The first 16 bytes are read where the string starts, unless
 * they cross a page, and from then on aligned pairs of words, which cross none.
 */
SYM_FUNC_START(__pi_strlen)
	mov	x8, #0x0101010101010101
	and	x9, x0, #4095
	cmp	x9, #4096 - 16
	b.hi	.Lstrlen_page_end
	ldp	x2, x3, [x0]
	sub	x4, x2, x8
	orr	x5, x2, #0x7f7f7f7f7f7f7f7f
	sub	x6, x3, x8
	orr	x7, x3, #0x7f7f7f7f7f7f7f7f
	bics	x2, x4, x5
	bic	x3, x6, x7
	mov	x1, x0
	ccmp	x3, #0, #0, eq
	b.ne	.Lstrlen_found
	bic	x1, x0, #15

	.p2align 4
.Lstrlen_pair:
	ldp	x2, x3, [x1, #16]!
.Lstrlen_have_pair:
	sub	x4, x2, x8
	sub	x6, x3, x8
	orr	x5, x4, x6
	tst	x5, #0x8080808080808080
	b.eq	.Lstrlen_pair
	/* A zero, or bytes of 0x81 and above. */
	orr	x5, x2, #0x7f7f7f7f7f7f7f7f
	orr	x7, x3, #0x7f7f7f7f7f7f7f7f
	bics	x2, x4, x5
	bic	x3, x6, x7
	ccmp	x3, #0, #0, eq
	b.eq	.Lstrlen_pair

.Lstrlen_found:
	sub	x0, x1, x0
	cbnz	x2, .Lstrlen_first_word
	add	x0, x0, #8
	mov	x2, x3
.Lstrlen_first_word:
	rev	x2, x2
	clz	x2, x2
	add	x0, x0, x2, lsr #3
	ret

.Lstrlen_page_end:
	/* The aligned pair: bytes before the string become such that none is zero. */
	bic	x1, x0, #15
	ldp	x2, x3, [x1]
	lsl	x9, x0, #3
	mov	x10, #-1
	lsl	x10, x10, x9
	tst	x0, #8
	orn	x11, x2, x10
	orn	x12, x3, x10
	csinv	x2, x11, xzr, eq
	csel	x3, x3, x12, eq
	b	.Lstrlen_have_pair
SYM_FUNC_END(__pi_strlen)
