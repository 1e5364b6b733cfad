/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_STRING_H
#define LW_LINUX_STRING_H

#include <linux/types.h>

void *memchr(const void *s, int c, size_t n);
int memcmp(const void *cs, const void *ct, size_t count);

#endif
