// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/export.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#undef memcmp
/* The first word that differs decides: in big-endian order it is less if its bytes are. */
__visible int memcmp(const void *cs, const void *ct, size_t count)
{
	const unsigned char *su1 = cs;
	const unsigned char *su2 = ct;

#ifdef CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS
	for (; count >= sizeof(u64); su1 += sizeof(u64), su2 += sizeof(u64), count -= sizeof(u64))
		if (get_unaligned((const u64 *)su1) != get_unaligned((const u64 *)su2))
			return get_unaligned_be64(su1) < get_unaligned_be64(su2) ? -1 : 1;
#endif
	for (; count; su1++, su2++, count--)
		if (*su1 != *su2)
			return *su1 - *su2;
	return 0;
}
EXPORT_SYMBOL(memcmp);
