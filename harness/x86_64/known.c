// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Latencies and rates as uops.info and InstLatx64 have them. Family and model are those that a
 * guest is told, so that Intel's cores are told apart by what they can do.
 */
#include "../known.h"
#include "chains.h"

#include <cpuid.h>
#include <string.h>

struct core {
	double load;	   /* cycles a load of a stream; 0 where not known */
	double store;	   /* the same for stores */
	double load_chain; /* latency */
	double adc;
};

static struct core amd(uint32_t family)
{
	if (family == 0x17)
		return (struct core){1 / 2., 1, 4, 1};
	if (family == 0x19)
		return (struct core){1 / 3., 1 / 2., 4, 1};
	return (struct core){.adc = 1};
}

static struct core intel(void)
{
	uint32_t a, b = 0, c = 0, d = 0, avx;

	__get_cpuid(1, &a, &b, &c, &d);
	avx = c;
	b = d = 0;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	if (d >> 24 & 1) /* AMX: Golden Cove and Redwood Cove */
		return (struct core){1 / 3., 1 / 2., 5, 1};
	if (d >> 14 & 1) /* SERIALIZE: any of their successors and small neighbours */
		return (struct core){.adc = 1};
	if (b >> 16 & 1 || b >> 19 & 1 || b >> 5 & 1) /* AVX-512, ADX or AVX2 */
		return (struct core){.load = 1 / 2., .adc = b >> 19 & 1};
	if (avx >> 28 & 1) /* AVX alone: Sandy Bridge, Ivy Bridge */
		return (struct core){1 / 2., 1, 4, 2};
	return (struct core){0};
}

static struct core this_core(void)
{
	uint32_t a = 0, b = 0, c = 0, d = 0, family;

	__get_cpuid(1, &a, &b, &c, &d);
	family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
	__get_cpuid(0, &a, &b, &c, &d);
	if (!memcmp(&b, "Auth", 4))
		return amd(family);
	return memcmp(&b, "Genu", 4) ? (struct core){0} : intel();
}

size_t known_loops(struct known *loops)
{
	struct core core = this_core();
	const struct known all[] = {
	    {"add chain", chain_add, 1, 1e-3, true, false},
	    {"imul chain", chain_multiply, 3, 1e-3, true, false},
	    {"load stream", stream_load, core.load, 1e-2, true, true},
	    {"taken branches", taken_branches, 1, 1e-2, true, true},
	    {"xor chain", chain_xor, 1, 1e-3, false, false},
	    {"lea chain", chain_lea, 1, 1e-3, false, false},
	    {"add constant chain", chain_add_constant, 1, 1e-3, false, false},
	    {"adc chain", chain_adc, core.adc, 1e-3, false, false},
	    {"load chain", chain_load, core.load_chain, 1e-3, false, false},
	    {"store stream", stream_store, core.store, 1e-2, false, false},
	    {"imul stream", stream_multiply, 1, 1e-2, false, false},
	};

	memcpy(loops, all, sizeof(all));
	return sizeof(all) / sizeof(*all);
}
