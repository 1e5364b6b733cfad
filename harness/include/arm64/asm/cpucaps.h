/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_CPUCAPS_H
#define LW_ASM_CPUCAPS_H

/* 1 where the code is assembled for CPUs that have it (-DLW_TAKE_<feature>), else 0. */
#ifdef LW_TAKE_ARM64_HAS_PAN
#define ARM64_HAS_PAN 1
#else
#define ARM64_HAS_PAN 0
#endif

#endif
