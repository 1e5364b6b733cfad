/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_CHECKSUM_H
#define LW_ASM_CHECKSUM_H

#include <linux/bitops.h>
#include <linux/types.h>

__wsum csum_partial(const void *buff, int len, __wsum sum);

#endif
