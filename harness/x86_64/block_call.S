/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See block_machine.h. The offsets follow struct block_frame. While a block runs, fs and gs point
 * to memory that is the block's: the C library keeps its thread's data behind fs.
 */
#include <asm/prctl.h>
#include <asm/unistd.h>

#define REPETITIONS	 8
#define ENTRY		 24
#define BLOCK_THREAD	 0x22000c00
#define HARMLESS_FLAGS	 0x202

	.macro	set_base code, value:vararg
	mov	$__NR_arch_prctl, %eax
	mov	$\code, %edi
	mov	\value, %rsi
	syscall
	.endm

	.bss
	.balign	8
host_stack:
	.skip	8
host_thread:
	.skip	8

	.text
	.globl	block_call
	.type	block_call, @function
block_call:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rdi, block_frame + REPETITIONS(%rip)
	mov	%rsp, host_stack(%rip)
	mov	%fs:0, %rax
	mov	%rax, host_thread(%rip)
	set_base ARCH_SET_GS, $BLOCK_THREAD
	set_base ARCH_SET_FS, $BLOCK_THREAD
	jmp	*block_frame + ENTRY(%rip)
	.size	block_call, . - block_call

	.globl	block_leave
	.type	block_leave, @function
block_leave:
	mov	host_stack(%rip), %rsp
	push	$HARMLESS_FLAGS
	popf
	fninit
	ldmxcsr	default_mxcsr(%rip)
	set_base ARCH_SET_FS, host_thread(%rip)
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.size	block_leave, . - block_leave

	/* The block's flags come along: AC would make the handler fault. */
	.globl	block_on_signal
	.type	block_on_signal, @function
block_on_signal:
	push	$HARMLESS_FLAGS
	popf
	push	%rdi
	push	%rsi
	push	%rdx
	set_base ARCH_SET_FS, host_thread(%rip)
	pop	%rdx
	pop	%rsi
	pop	%rdi
	sub	$8, %rsp
	call	block_signal
	add	$8, %rsp
	set_base ARCH_SET_FS, $BLOCK_THREAD
	ret
	.size	block_on_signal, . - block_on_signal

	.section .rodata
	.balign	4
default_mxcsr:
	.long	0x1f80

	.section .note.GNU-stack, "", @progbits
