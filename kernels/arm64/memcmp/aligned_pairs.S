/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Compares x2 bytes at x0 with those at x1, and returns in w0 the sign of the first difference.
 *
 * Pairs of words, the last one ending where both sides end: it reaches back over bytes that are
 * alike. From 128 bytes on the pairs of the first side are aligned behind the first. Of words that
 * differ the one of the lesser bytes is less in big-endian order.
 */
SYM_FUNC_START(__pi_memcmp)
	subs	x7, x2, #16
	b.lo	.Lmemcmp_short
	ldp	x3, x5, [x0]
	ldp	x4, x6, [x1]
	cmp	x3, x4
	ccmp	x5, x6, #0, eq
	b.ne	.Lmemcmp_differ

	/* Where the last pair of each side begins. */
	add	x9, x0, x7
	add	x10, x1, x7
	cmp	x2, #128
	b.lo	.Lmemcmp_behind_first
	and	x8, x0, #15
	sub	x0, x0, x8
	sub	x1, x1, x8
.Lmemcmp_behind_first:
	add	x0, x0, #16
	add	x1, x1, #16
	cmp	x0, x9
	b.hs	.Lmemcmp_last

	.p2align 4
.Lmemcmp_pair:
	ldp	x3, x5, [x0], #16
	ldp	x4, x6, [x1], #16
	cmp	x0, x9
	ccmp	x3, x4, #0, lo
	ccmp	x5, x6, #0, eq
	b.eq	.Lmemcmp_pair
	cmp	x3, x4
	ccmp	x5, x6, #0, eq
	b.ne	.Lmemcmp_differ

.Lmemcmp_last:
	ldp	x3, x5, [x9]
	ldp	x4, x6, [x10]
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

.Lmemcmp_short:
	tbz	x2, #3, .Lmemcmp_less_than_8
	sub	x7, x2, #8
	ldr	x3, [x0]
	ldr	x4, [x1]
	ldr	x5, [x0, x7]
	ldr	x6, [x1, x7]
	b	.Lmemcmp_differ

.Lmemcmp_less_than_8:
	tbz	x2, #2, .Lmemcmp_less_than_4
	sub	x7, x2, #4
	ldr	w3, [x0]
	ldr	w4, [x1]
	ldr	w5, [x0, x7]
	ldr	w6, [x1, x7]
	b	.Lmemcmp_differ

.Lmemcmp_less_than_4:
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
