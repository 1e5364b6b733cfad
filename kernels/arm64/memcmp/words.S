/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/linkage.h>
#include <asm/assembler.h>

/*
 * Compares x2 bytes at x0 with those at x1, and returns in w0 the sign of the first difference.
 *
 * Words by their offset, the last one ending where both sides end: it reaches back over bytes that
 * are alike. Of words that differ the one of the lesser bytes is less in big-endian order.
 */
SYM_FUNC_START(__pi_memcmp)
	subs	x7, x2, #8
	b.lo	.Lmemcmp_short
	mov	x8, #0
	b.eq	.Lmemcmp_last

	.p2align 4
.Lmemcmp_word:
	ldr	x3, [x0, x8]
	ldr	x4, [x1, x8]
	add	x8, x8, #8
	cmp	x8, x7
	ccmp	x3, x4, #0, lo
	b.eq	.Lmemcmp_word
	cmp	x3, x4
	b.ne	.Lmemcmp_differ

.Lmemcmp_last:
	ldr	x3, [x0, x7]
	ldr	x4, [x1, x7]
.Lmemcmp_differ:
	rev	x3, x3
	rev	x4, x4
	cmp	x3, x4
	cset	w0, ne
	cneg	w0, w0, lo
	ret

.Lmemcmp_short:
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
