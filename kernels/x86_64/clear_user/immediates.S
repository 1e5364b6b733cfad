/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

/*
 * Clears rcx bytes at rdi, which may fault; rax is zero and is so again at the end. Returns in
 * rcx how many bytes are not cleared. Changes rdi alone: callers switch between this and a plain
 * rep stosb.
 *
 * One word an iteration, with immediates: 15 bytes of loop where a zero and an eight in registers
 * made 10. The function lies where the linker may put any function, at a multiple of 16 in the
 * last quarter of a cache line, and its loop straddles the end of that line.
 */
	.p2align 6
	.skip 48, 0x90
SYM_FUNC_START(rep_stos_alternative)
	/* Words into rcx, of which the loop counts 32 bits; the bytes behind them into rax. */
	movl %ecx,%eax
	andl $7,%eax
	shrq $3,%rcx
	jz .Lrest

.Lqwords:
	movq $0,(%rdi)
	addq $8,%rdi
	decl %ecx
	jnz .Lqwords

.Lrest:
	movl %eax,%ecx
	xorl %eax,%eax
	testl %ecx,%ecx
	je .Lexit

.Lbytes:
	movb $0,(%rdi)
	incq %rdi
	decq %rcx
	jnz .Lbytes
.Lexit:
	RET

	/* Words that are left and the bytes behind them, one by one to the exact count. */
.Lqwords_fault:
	leaq (%rax,%rcx,8),%rcx
	xorl %eax,%eax
	jmp .Lbytes

	_ASM_EXTABLE_UA(.Lqwords, .Lqwords_fault)
	_ASM_EXTABLE_UA(.Lbytes, .Lexit)
SYM_FUNC_END(rep_stos_alternative)
EXPORT_SYMBOL(rep_stos_alternative)
