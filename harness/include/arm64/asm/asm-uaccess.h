/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Accesses to user space, for assembly. */
#ifndef LW_ASM_ASM_UACCESS_H
#define LW_ASM_ASM_UACCESS_H

#include <asm/alternative.h>
#include <asm/asm-extable.h>

/* clang-format off */
#define USER(fixup, insn...)			\
9999:	insn;					\
	_asm_extable_uaccess 9999b, fixup

/* Unprivileged loads and stores come neither in pairs nor with an update of the pointer. */
	.macro user_ldp fixup, reg1, reg2, addr, post_inc
8888:	ldtr	\reg1, [\addr]
8889:	ldtr	\reg2, [\addr, #8]
	add	\addr, \addr, \post_inc
	_asm_extable_uaccess 8888b, \fixup
	_asm_extable_uaccess 8889b, \fixup
	.endm

	.macro user_stp fixup, reg1, reg2, addr, post_inc
8888:	sttr	\reg1, [\addr]
8889:	sttr	\reg2, [\addr, #8]
	add	\addr, \addr, \post_inc
	_asm_extable_uaccess 8888b, \fixup
	_asm_extable_uaccess 8889b, \fixup
	.endm

	.macro user_ldst fixup, inst, reg, addr, post_inc
8888:	\inst	\reg, [\addr]
	add	\addr, \addr, \post_inc
	_asm_extable_uaccess 8888b, \fixup
	.endm
/* clang-format on */

#endif
