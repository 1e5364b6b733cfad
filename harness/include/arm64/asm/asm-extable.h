/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_ASM_EXTABLE_H
#define LW_ASM_ASM_EXTABLE_H

#ifdef __ASSEMBLY__

/*
 * An entry of the exception table: where a fault may happen and where to go on, both relative to
 * their own field, the kind of handler (2: user access) and the registers it is to set (none:
 * wzr, twice).
 */
/* clang-format off */
.macro _asm_extable_uaccess, insn, fixup
	.pushsection __ex_table, "a"
	.balign 4
	.long (\insn) - .
	.long (\fixup) - .
	.short 2
	.short 31 << 5 | 31
	.popsection
.endm
/* clang-format on */

#endif

#endif
