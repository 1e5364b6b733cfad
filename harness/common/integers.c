// SPDX-License-Identifier: GPL-2.0-or-later
#include "integers.h"

/* Bit by bit: some kernel versions only approximate products of 128 bits. */
u64 integers_scale(u64 value, u64 times, u64 by)
{
	unsigned __int128 product = (unsigned __int128)value * times;
	u64 high = product >> 64, low = product, result = 0;

	if (high >= by)
		return ~0ull;
	for (int bit = 0; bit < 64; bit++) {
		bool carry = high >> 63;

		high = high << 1 | low >> 63;
		low <<= 1;
		result <<= 1;
		if (carry || high >= by) {
			high -= by;
			result |= 1;
		}
	}
	return result;
}

u64 integers_apart(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

u64 integers_root(u64 square)
{
	u64 root = 0;

	for (u64 bit = 1ull << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= square)
			root |= bit;
	return root;
}

/* By insertion: a series has a few hundred values, which are nearly sorted in halves. */
void integers_sort(u64 *values, unsigned int count)
{
	for (unsigned int i = 1; i < count; i++) {
		u64 value = values[i];
		unsigned int at = i;

		for (; at && values[at - 1] > value; at--)
			values[at] = values[at - 1];
		values[at] = value;
	}
}

u64 integers_quantile(const u64 *sorted, unsigned int count, unsigned int percent)
{
	unsigned int at = percent * (count - 1), low = at / 100;

	if (low + 1 >= count)
		return sorted[count - 1];
	return sorted[low] + integers_scale(sorted[low + 1] - sorted[low], at % 100, 100);
}
