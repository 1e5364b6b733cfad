/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_LINKAGE_H
#define LW_ASM_LINKAGE_H

#ifdef __ASSEMBLY__

/* CONFIG_FUNCTION_ALIGNMENT of a default x86-64 kernel. */
#define __ALIGN .balign 16, 0x90

/* What a kernel without return thunks and straight-line-speculation traps returns with. */
#define RET ret

#endif

#endif
