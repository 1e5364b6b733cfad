/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_MTE_DEF_H
#define LW_ASM_MTE_DEF_H

/* Bytes of memory with one tag: no access may cross the end of them where tags are checked. */
#define MTE_GRANULE_SIZE 16

#endif
