/* SPDX-License-Identifier: GPL-2.0-or-later */
	.macro EXTABLE from, to
	.pushsection __ex_table, "a"
	.balign 4
	.long \from - .
	.long \to - .
	.long 3 /* EX_TYPE_UACCESS */
	.popsection
	.endm

	.macro FUNCTION name
	.text
	.globl \name
	.type \name, @function
\name:
	.endm

	.macro END name
	.size \name, . - \name
	.endm
