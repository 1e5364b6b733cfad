// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/export.h>
#include <linux/string.h>
#include <linux/types.h>

#undef memchr
/* Byte by byte. */
void *memchr(const void *s, int c, size_t n)
{
	const unsigned char *at = s;

	for (; n; at++, n--)
		if (*at == (unsigned char)c)
			return (void *)at;
	return NULL;
}
EXPORT_SYMBOL(memchr);
