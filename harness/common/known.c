// SPDX-License-Identifier: GPL-2.0-or-later
#include "known.h"

#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/string.h>
#else
#include <stdio.h>
#include <string.h>
#endif

#define FEW 750000 /* millionths of a cycle: below, several instructions go in one */

static u64 whole(u64 cycles)
{
	u64 rate;

	if (!cycles)
		return 0;
	if (cycles > FEW)
		return (cycles + MILLION / 2) / MILLION * MILLION;
	rate = (MILLION * MILLION / cycles + MILLION / 2) / MILLION;
	return (MILLION + rate / 2) / rate;
}

struct known_test known_test(const struct known *known, const struct reading *reading)
{
	struct known_test test = {.known = *known};

	test.cycles = *reading->refused ? 0 : reading->median / CHAIN_LENGTH;
	test.expected = known->cycles ? known->cycles : whole(test.cycles);
	test.held = test.cycles && integers_apart(test.cycles, test.expected) <=
				       integers_scale(test.expected, known->tolerance, MILLION);
	memcpy(test.refused, reading->refused, sizeof(test.refused));
	return test;
}

static int complain(const struct known_test *test, bool first, char *text, size_t size)
{
	const char *between = first ? "self-test failed: " : "; ", *name = test->known.name;
	unsigned long long cycles = test->cycles, expected = test->expected;

	if (*test->refused)
		return snprintf(text, size, "%s%s%s%s", between, name, first ? ": " : " refused",
				first ? test->refused : "");
	return snprintf(text, size, "%s%s at %llu.%04llu%s, not %llu.%04llu", between, name,
			cycles / MILLION, cycles % MILLION / 100,
			first ? " cycles an instruction" : "", expected / MILLION,
			expected % MILLION / 100);
}

void known_complain(const struct known_test *tests, unsigned int count, char *text, size_t size)
{
	size_t used = 0;

	*text = 0;
	for (unsigned int i = 0; i < count; i++)
		if (!tests[i].held && used < size)
			used += complain(&tests[i], !used, text + used, size - used);
}
