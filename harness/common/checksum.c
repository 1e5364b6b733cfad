// SPDX-License-Identifier: GPL-2.0-or-later
#include "checksum.h"

u32 checksum_fold(u64 sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

u64 checksum_add(const unsigned char *bytes, u64 count)
{
	u64 sum = 0;

	for (u64 i = 0; i < count; i++)
		sum += (u64)bytes[i] << 8 * (i & 1);
	return sum;
}
