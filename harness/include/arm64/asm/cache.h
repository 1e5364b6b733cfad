/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_CACHE_H
#define LW_ASM_CACHE_H

#define L1_CACHE_SHIFT 6

#endif
