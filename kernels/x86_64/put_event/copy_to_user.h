/* SPDX-License-Identifier: GPL-2.0-or-later */
/* copy_to_user() of a kernel without hardened user copies, and what it calls without FSRM. */
#include <linux/uaccess.h>

/*
 * The copy of x86_64/copy_user that 6.12 has, movsq_aligned, for the 64 bytes and more that are
 * copied here; fewer go byte by byte.
 */
/* clang-format off */
asm("	.text\n"
    "	.balign 16, 0x90\n"
    "	.type rep_movs_alternative, @function\n"
    "rep_movs_alternative:\n"
    "	cmpq $64,%rcx\n"
    "	jae .Llarge\n"
    "	testl %ecx,%ecx\n"
    "	je .Lexit\n"
    ".Lcopy_user_tail:\n"
    "0:	movb (%rsi),%al\n"
    "1:	movb %al,(%rdi)\n"
    "	incq %rdi\n"
    "	incq %rsi\n"
    "	decq %rcx\n"
    "	jne .Lcopy_user_tail\n"
    ".Lexit:\n"
    "	ret\n"
    _ASM_EXTABLE_UA(0b, .Lexit)
    _ASM_EXTABLE_UA(1b, .Lexit)
    ".Llarge:\n"
    "0:\n"
    ALTERNATIVE("jmp .Llarge_movsq", "rep movsb", X86_FEATURE_ERMS)
    "1:	ret\n"
    _ASM_EXTABLE_UA(0b, 1b)
    ".Llarge_movsq:\n"
    "0:	movq (%rsi),%rax\n"
    "1:	movq %rax,(%rdi)\n"
    _ASM_EXTABLE_UA(0b, .Lcopy_user_tail)
    _ASM_EXTABLE_UA(1b, .Lcopy_user_tail)
    "	leaq 8(%rdi),%rax\n"
    "	andq $-8,%rax\n"
    "	subq %rdi,%rax\n"
    "	addq %rax,%rdi\n"
    "	addq %rax,%rsi\n"
    "	subq %rax,%rcx\n"
    "	movq %rcx,%rax\n"
    "	shrq $3,%rcx\n"
    "	andl $7,%eax\n"
    "0:	rep movsq\n"
    "	movl %eax,%ecx\n"
    "	testl %ecx,%ecx\n"
    "	jne .Lcopy_user_tail\n"
    "	ret\n"
    "1:	leaq (%rax,%rcx,8),%rcx\n"
    "	jmp .Lcopy_user_tail\n"
    _ASM_EXTABLE_UA(0b, 1b)
    "	.size rep_movs_alternative, . - rep_movs_alternative\n");
/* clang-format on */

static __attribute__((noinline)) unsigned long _copy_to_user(void __user *to, const void *from,
							     unsigned long n)
{
	if (access_ok(to, n))
		n = copy_user_generic(to, from, n);
	return n;
}

#define copy_to_user _copy_to_user
