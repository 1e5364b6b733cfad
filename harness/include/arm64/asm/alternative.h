/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_ALTERNATIVE_H
#define LW_ASM_ALTERNATIVE_H

#include <asm/cpucaps.h>

#ifdef __ASSEMBLY__

/*
 * The kernel patches new instructions over old ones at boot; here the choice falls at assembly
 * time. Both have the same length, so the code around them lies where it lies in the kernel.
 */
/* clang-format off */
.macro lw_alternative oldinstr, newinstr, feature
	.if \feature
	\newinstr
	.else
	\oldinstr
	.endif
.endm

#define ALTERNATIVE(oldinstr, newinstr, feature) lw_alternative oldinstr, newinstr, feature
/* clang-format on */

#endif

#endif
