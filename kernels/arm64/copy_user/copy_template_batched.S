/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Copies x2 bytes from x1 to x0, for a function that has put the end of the destination into end
 * and defines the loads and stores: ldrb1 to stp1, which move their pointer on,
 * and ldp_at and stp_at, which do not.
 * The source is aligned to 16 bytes first; the hardware handles what else is not aligned.
 */
dstin	.req	x0
src	.req	x1
count	.req	x2
tmp1	.req	x3
tmp1w	.req	w3
tmp2	.req	x4
tmp2w	.req	w4
dst	.req	x6

A_l	.req	x7
A_h	.req	x8
B_l	.req	x9
B_h	.req	x10
C_l	.req	x11
C_h	.req	x12
D_l	.req	x13
D_h	.req	x14

	mov	dst, dstin
	cmp	count, #16
	b.lo	.Ltiny15

	/* 1, 2, 4 and 8 bytes, as the distance to the next multiple of 16 needs them. */
	neg	tmp2, src
	ands	tmp2, tmp2, #15
	b.eq	.LSrcAligned
	sub	count, count, tmp2
	tbz	tmp2, #0, 1f
	ldrb1	tmp1w, src, #1
	strb1	tmp1w, dst, #1
1:
	tbz	tmp2, #1, 2f
	ldrh1	tmp1w, src, #2
	strh1	tmp1w, dst, #2
2:
	tbz	tmp2, #2, 3f
	ldr1	tmp1w, src, #4
	str1	tmp1w, dst, #4
3:
	tbz	tmp2, #3, .LSrcAligned
	ldr1	tmp1, src, #8
	str1	tmp1, dst, #8

.LSrcAligned:
	cmp	count, #64
	b.ge	.Lcpy_over64

	/* Three pairs at most; of count only the low six bits matter from here on. */
.Ltail63:
	ands	tmp1, count, #0x30
	b.eq	.Ltiny15
	cmp	tmp1w, #0x20
	b.eq	1f
	b.lt	2f
	ldp1	A_l, A_h, src, #16
	stp1	A_l, A_h, dst, #16
1:
	ldp1	A_l, A_h, src, #16
	stp1	A_l, A_h, dst, #16
2:
	ldp1	A_l, A_h, src, #16
	stp1	A_l, A_h, dst, #16
.Ltiny15:
	tbz	count, #3, 1f
	ldr1	tmp1, src, #8
	str1	tmp1, dst, #8
1:
	tbz	count, #2, 2f
	ldr1	tmp1w, src, #4
	str1	tmp1w, dst, #4
2:
	tbz	count, #1, 3f
	ldrh1	tmp1w, src, #2
	strh1	tmp1w, dst, #2
3:
	tbz	count, #0, .Lexitfunc
	ldrb1	tmp1w, src, #1
	strb1	tmp1w, dst, #1

	b	.Lexitfunc

.Lcpy_over64:
	subs	count, count, #128
	b.ge	.Lcpy_body_large

	/* 64 to 127 bytes: 64 here, the others as a tail. */
	ldp1	A_l, A_h, src, #16
	stp1	A_l, A_h, dst, #16
	ldp1	B_l, B_h, src, #16
	ldp1	C_l, C_h, src, #16
	stp1	B_l, B_h, dst, #16
	stp1	C_l, C_h, dst, #16
	ldp1	D_l, D_h, src, #16
	stp1	D_l, D_h, dst, #16

	tst	count, #0x3f
	b.ne	.Ltail63
	b	.Lexitfunc

	/* 128 bytes and more: each iteration stores 64 bytes and loads the next 64. */
	.p2align	L1_CACHE_SHIFT
.Lcpy_body_large:
	ldp_at	A_l, A_h, src, #0
	ldp_at	B_l, B_h, src, #16
	ldp_at	C_l, C_h, src, #32
	ldp_at	D_l, D_h, src, #48
	add	src, src, #64
1:
	stp_at	A_l, A_h, dst, #0
	ldp_at	A_l, A_h, src, #0
	stp_at	B_l, B_h, dst, #16
	ldp_at	B_l, B_h, src, #16
	stp_at	C_l, C_h, dst, #32
	ldp_at	C_l, C_h, src, #32
	stp_at	D_l, D_h, dst, #48
	ldp_at	D_l, D_h, src, #48
	add	dst, dst, #64
	add	src, src, #64
	subs	count, count, #64
	b.ge	1b
	stp_at	A_l, A_h, dst, #0
	stp_at	B_l, B_h, dst, #16
	stp_at	C_l, C_h, dst, #32
	stp_at	D_l, D_h, dst, #48
	add	dst, dst, #64

	tst	count, #0x3f
	b.ne	.Ltail63
.Lexitfunc:
