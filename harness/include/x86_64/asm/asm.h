/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_ASM_H
#define LW_ASM_ASM_H

/*
 * Entries of the exception table as the kernel's sorted table has them: where a fault may
 * happen and where to go on, both relative to their own field, and the kind of handler.
 */
#define EX_TYPE_DEFAULT 1
#define EX_TYPE_UACCESS 3

#ifdef __ASSEMBLY__

/* clang-format off */
#define _ASM_EXTABLE_TYPE(from, to, type)                                                          \
	.pushsection "__ex_table", "a";                                                            \
	.balign 4;                                                                                 \
	.long (from) - .;                                                                          \
	.long (to) - .;                                                                            \
	.long type;                                                                                \
	.popsection
/* clang-format on */

#else

#include <linux/stringify.h>

#define _ASM_EXTABLE_TYPE(from, to, type)                                                          \
	" .pushsection \"__ex_table\", \"a\"\n"                                                    \
	" .balign 4\n"                                                                             \
	" .long (" #from ") - .\n"                                                                 \
	" .long (" #to ") - .\n"                                                                   \
	" .long " __stringify(type) "\n"                                                           \
				    " .popsection\n"

/* Ties a call made from inline assembly to a stack frame that is set up. */
register unsigned long current_stack_pointer asm("rsp");
#define ASM_CALL_CONSTRAINT "+r"(current_stack_pointer)

#endif

#define _ASM_EXTABLE(from, to) _ASM_EXTABLE_TYPE(from, to, EX_TYPE_DEFAULT)
#define _ASM_EXTABLE_UA(from, to) _ASM_EXTABLE_TYPE(from, to, EX_TYPE_UACCESS)

#endif
