// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/export.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#undef memcmp
/* The words that are alike are skipped; then bytes decide. */
__visible int memcmp(const void *cs, const void *ct, size_t count)
{
	const unsigned char *su1 = cs;
	const unsigned char *su2 = ct;

#ifdef CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS
	const unsigned long *u1 = cs;
	const unsigned long *u2 = ct;

	while (count >= sizeof(unsigned long) && get_unaligned(u1) == get_unaligned(u2)) {
		u1++;
		u2++;
		count -= sizeof(unsigned long);
	}
	su1 = (const unsigned char *)u1;
	su2 = (const unsigned char *)u2;
#endif
	for (; count; su1++, su2++, count--)
		if (*su1 != *su2)
			return *su1 - *su2;
	return 0;
}
EXPORT_SYMBOL(memcmp);
