/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_ASSEMBLER_H
#define LW_ASM_ASSEMBLER_H

#include <asm/asm-extable.h>

#endif
