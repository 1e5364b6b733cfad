/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two functions of arch/x86/lib/putuser.S that __put_user() calls here. */
#include <asm/asm.h>
#include <asm/smap.h>
#include <linux/errno.h>
#include <linux/stringify.h>

/* clang-format off */
#define PUT_USER_NOCHECK(size, mov)                                                                \
	asm("	.balign 16, 0x90\n"                                                                \
	    "	.type __put_user_nocheck_" #size ", @function\n"                                   \
	    "__put_user_nocheck_" #size ":\n"                                                      \
	    ASM_STAC                                                                               \
	    "1:	" mov ",(%rcx)\n"                                                                  \
	    "	xor %ecx,%ecx\n"                                                                   \
	    ASM_CLAC                                                                               \
	    "	ret\n"                                                                             \
	    _ASM_EXTABLE_UA(1b, __put_user_handle_exception)                                       \
	    "	.size __put_user_nocheck_" #size ", . - __put_user_nocheck_" #size "\n")

asm("	.text\n");
PUT_USER_NOCHECK(4, "movl %eax");
PUT_USER_NOCHECK(8, "movq %rax");
asm("	.type __put_user_handle_exception, @function\n"
    "__put_user_handle_exception:\n"
    ASM_CLAC
    "	movl $-" __stringify(EFAULT) ",%ecx\n"
    "	ret\n"
    "	.size __put_user_handle_exception, . - __put_user_handle_exception\n");
/* clang-format on */
