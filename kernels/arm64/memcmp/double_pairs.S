/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Compares x2 bytes at x0 with those at x1, and returns in w0 the sign of the first difference.
 *
 * Two pairs of words an iteration, the last two ending where both sides end: they reach back over
 * bytes that are alike. Of words that differ the one of the lesser bytes is less in big-endian
 * order.
 */
SYM_FUNC_START(__pi_memcmp)
	subs	x7, x2, #32
	/* Where the last two pairs of each side begin. */
	add	x9, x0, x7
	add	x10, x1, x7
	b.lo	.Lmemcmp_less_than_32
	b.eq	.Lmemcmp_two_pairs

	.p2align 4
.Lmemcmp_double_pair:
	ldp	x3, x5, [x0]
	ldp	x4, x6, [x1]
	ldp	x11, x13, [x0, #16]
	ldp	x12, x14, [x1, #16]
	add	x0, x0, #32
	add	x1, x1, #32
	cmp	x0, x9
	ccmp	x3, x4, #0, lo
	ccmp	x5, x6, #0, eq
	ccmp	x11, x12, #0, eq
	ccmp	x13, x14, #0, eq
	b.eq	.Lmemcmp_double_pair
	cmp	x3, x4
	ccmp	x5, x6, #0, eq
	b.ne	.Lmemcmp_differ
	mov	x3, x11
	mov	x4, x12
	mov	x5, x13
	mov	x6, x14
	cmp	x3, x4
	ccmp	x5, x6, #0, eq
	b.ne	.Lmemcmp_differ
	mov	x0, x9
	mov	x1, x10

.Lmemcmp_two_pairs:
	ldp	x3, x5, [x0]
	ldp	x4, x6, [x1]
	cmp	x3, x4
	ccmp	x5, x6, #0, eq
	b.ne	.Lmemcmp_differ
	ldp	x3, x5, [x9, #16]
	ldp	x4, x6, [x10, #16]
.Lmemcmp_differ:
	cmp	x3, x4
	csel	x3, x3, x5, ne
	csel	x4, x4, x6, ne
	rev	x3, x3
	rev	x4, x4
	cmp	x3, x4
	cset	w0, ne
	cneg	w0, w0, lo
	ret

.Lmemcmp_less_than_32:
	tbnz	x2, #4, .Lmemcmp_two_pairs
	tbz	x2, #3, .Lmemcmp_less_than_8
	ldr	x3, [x0]
	ldr	x4, [x1]
	ldr	x5, [x9, #24]
	ldr	x6, [x10, #24]
	b	.Lmemcmp_differ

.Lmemcmp_less_than_8:
	cbz	x2, .Lmemcmp_alike
.Lmemcmp_byte:
	ldrb	w3, [x0], #1
	ldrb	w4, [x1], #1
	subs	x2, x2, #1
	ccmp	w3, w4, #0, ne
	b.eq	.Lmemcmp_byte
	sub	w0, w3, w4
	ret
.Lmemcmp_alike:
	mov	w0, #0
	ret
SYM_FUNC_END(__pi_memcmp)
