/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_CPUFEATURE_H
#define LW_ASM_CPUFEATURE_H

#include <asm/cpufeatures.h>

/* The kernel patches a jump at boot; here the branch not taken is not compiled. */
#define static_cpu_has(feature) (feature)

#endif
