/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_SMAP_H
#define LW_ASM_SMAP_H

#include <asm/alternative.h>
#include <asm/cpufeatures.h>
#include <linux/compiler.h>

/* clang-format off */
#define ASM_STAC ALTERNATIVE("", "stac", X86_FEATURE_SMAP)
#define ASM_CLAC ALTERNATIVE("", "clac", X86_FEATURE_SMAP)
/* clang-format on */

static __always_inline void stac(void)
{
	alternative("", "stac", X86_FEATURE_SMAP);
}

static __always_inline void clac(void)
{
	alternative("", "clac", X86_FEATURE_SMAP);
}

#endif
