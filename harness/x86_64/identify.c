// SPDX-License-Identifier: GPL-2.0-or-later
/* The CPUID leaves that identify the core. */
#include "../machine.h"

#include <cpuid.h>

#define APIC_ID 0xff000000u /* in ebx of leaf 1: of the CPU that asks */
#define OSXSAVE (1u << 27)

static const struct {
	uint32_t leaf;
	uint32_t subleaf;
} leaves[] = {
    {0, 0},	     {1, 0},	      {7, 0},	       {7, 1},		{0x80000000, 0},
    {0x80000001, 0}, {0x80000002, 0}, {0x80000003, 0}, {0x80000004, 0}, {0x80000008, 0},
};

void machine_identify(void (*say)(void *, const char *, const char *), void *data)
{
	for (size_t i = 0; i < sizeof(leaves) / sizeof(*leaves); i++) {
		uint32_t a, b, c, d;
		char key[32], value[64];

		if (!__get_cpuid_count(leaves[i].leaf, leaves[i].subleaf, &a, &b, &c, &d))
			continue;
		if (leaves[i].leaf == 1) {
			b &= ~APIC_ID;
			c &= ~OSXSAVE;
		}
		snprintf(key, sizeof(key), "cpuid_%08x_%x", leaves[i].leaf, leaves[i].subleaf);
		snprintf(value, sizeof(value), "%08x %08x %08x %08x", a, b, c, d);
		say(data, key, value);
	}
}
