// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/export.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#undef memcmp
/*
 * The first word that differs decides: in big-endian order it is less if its bytes are. The last
 * word ends with the sides, and reaches back over bytes that are alike.
 */
__visible int memcmp(const void *cs, const void *ct, size_t count)
{
	const unsigned char *su1 = cs;
	const unsigned char *su2 = ct;

#ifdef CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS
	if (count >= sizeof(u64)) {
		const unsigned char *last = su1 + count - sizeof(u64);
		const long apart = su2 - su1;

		for (; su1 < last; su1 += sizeof(u64))
			if (get_unaligned((const u64 *)su1) !=
			    get_unaligned((const u64 *)(su1 + apart)))
				goto differ;
		su1 = last;
		if (get_unaligned((const u64 *)su1) == get_unaligned((const u64 *)(su1 + apart)))
			return 0;
	differ:
		return get_unaligned_be64(su1) < get_unaligned_be64(su1 + apart) ? -1 : 1;
	}
#endif
	for (; count; su1++, su2++, count--)
		if (*su1 != *su2)
			return *su1 - *su2;
	return 0;
}
EXPORT_SYMBOL(memcmp);
