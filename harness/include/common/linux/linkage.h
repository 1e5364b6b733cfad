/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_LINKAGE_H
#define LW_LINUX_LINKAGE_H

#include <asm/linkage.h>
#include <linux/export.h>

#ifdef __ASSEMBLY__

/* clang-format off */
#define SYM_FUNC_START(name)                                                                       \
	.globl name;                                                                               \
	.type name, %function;                                                                     \
	__ALIGN;                                                                                   \
	name:

#define SYM_FUNC_START_LOCAL(name)                                                                 \
	.type name, %function;                                                                     \
	__ALIGN;                                                                                   \
	name:

#define SYM_FUNC_END(name) .size name, . - name
/* clang-format on */

#endif

#endif
