// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Latencies and rates from uops.info and InstLatx64. A hypervisor may invent family and model, so
 * that Intel's cores are distinguished by their features.
 */
#include "../loops.h"
#include "chains.h"

#include <cpuid.h>
#include <string.h>

struct core {
	u32 load;	/* a load of a stream; 0 where not known, here and below */
	u32 store;	/* a store of a stream */
	u32 load_chain; /* latency */
	u32 adc;
	u32 multiply; /* a multiplication of a stream */
};

/* Cycles an instruction, in millionths. */
#define CYCLES(cycles) ((u32)((cycles) * MILLION))
#define A_CYCLE(instructions) ((u32)(MILLION / (instructions)))

static struct core amd(uint32_t family)
{
	if (family == 0x17)
		return (struct core){A_CYCLE(2), CYCLES(1), CYCLES(4), CYCLES(1), CYCLES(1)};
	if (family == 0x19)
		return (struct core){A_CYCLE(3), A_CYCLE(2), CYCLES(4), CYCLES(1), CYCLES(1)};
	return (struct core){.adc = CYCLES(1)};
}

static struct core intel(void)
{
	uint32_t a, b = 0, c = 0, d = 0, avx;

	__get_cpuid(1, &a, &b, &c, &d);
	avx = c;
	b = d = 0;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	if (d >> 24 & 1) /* AMX: Golden Cove and Redwood Cove */
		return (struct core){A_CYCLE(3), A_CYCLE(2), CYCLES(5), CYCLES(1), CYCLES(1)};
	if (d >> 14 & 1) /* SERIALIZE: any of their successors and small neighbours */
		return (struct core){.adc = CYCLES(1)};
	if (b >> 16 & 1 || b >> 19 & 1 || b >> 5 & 1) /* AVX-512, ADX or AVX2 */
		return (struct core){
		    .load = A_CYCLE(2), .adc = b >> 19 & 1 ? CYCLES(1) : 0, .multiply = CYCLES(1)};
	if (avx >> 28 & 1) /* AVX alone: Sandy Bridge, Ivy Bridge */
		return (struct core){A_CYCLE(2), CYCLES(1), CYCLES(4), CYCLES(2), CYCLES(1)};
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

const struct known *loops_known(unsigned int *count)
{
	static const struct code add = {.run = chain_add}, multiply = {.run = chain_multiply},
				 load = {.run = stream_load}, taken = {.run = taken_branches},
				 xor = {.run = chain_xor}, lea = {.run = chain_lea},
				 constant = {.run = chain_add_constant}, adc = {.run = chain_adc},
				 latency = {.run = chain_load}, store = {.run = stream_store},
				 multiplies = {.run = stream_multiply}, nop = {.run = stream_nop};
	static struct known loops[KNOWN_LOOPS];
	struct core core = this_core();
	const struct known all[] = {
	    {"add chain", &add, CYCLES(1), LOOPS_CHAIN, true, false},
	    {"imul chain", &multiply, CYCLES(3), LOOPS_CHAIN, true, false},
	    {"load stream", &load, core.load, LOOPS_STREAM, core.load, true},
	    {"taken branches", &taken, CYCLES(1), LOOPS_STREAM, false, true},
	    {"nop stream", &nop, 0, LOOPS_STREAM, false, true},
	    {"xor chain", &xor, CYCLES(1), LOOPS_CHAIN, false, false},
	    {"lea chain", &lea, CYCLES(1), LOOPS_CHAIN, false, false},
	    {"add constant chain", &constant, CYCLES(1), LOOPS_CHAIN, false, false},
	    {"adc chain", &adc, core.adc, LOOPS_CHAIN, false, false},
	    {"load chain", &latency, core.load_chain, LOOPS_CHAIN, false, false},
	    {"store stream", &store, core.store, LOOPS_STREAM, false, false},
	    {"imul stream", &multiplies, core.multiply, LOOPS_STREAM, false, false},
	};

	memcpy(loops, all, sizeof(all));
	*count = sizeof(all) / sizeof(*all);
	return loops;
}
