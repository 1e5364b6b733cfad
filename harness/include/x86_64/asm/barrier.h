/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_BARRIER_H
#define LW_ASM_BARRIER_H

#include <asm/alternative.h>
#include <asm/cpufeatures.h>

#define barrier_nospec() alternative("", "lfence", X86_FEATURE_LFENCE_RDTSC)

#endif
