/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_LINKAGE_H
#define LW_ASM_LINKAGE_H

#ifdef __ASSEMBLY__
#define __ALIGN .balign 4
#endif

#endif
