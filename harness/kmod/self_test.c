// SPDX-License-Identifier: GPL-2.0-or-later
#include "self_test.h"

#include "arch.h"
#include "chain_calls.h"
#include "records.h"

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#define ATTEMPTS 6
#define SAMPLES 64
#define MILLION 1000000ull

static bool within(u64 value, u64 known, u64 tolerance)
{
	u64 apart = value > known ? value - known : known - value;

	return apart * MILLION <= known * tolerance;
}

/* Whole cycles an instruction, or whole instructions a cycle: but for a neighbour on the core. */
static bool whole(u64 took, u64 tolerance)
{
	u64 rate = took ? div64_u64(MILLION * MILLION, took) : 0;
	u64 value = took < MILLION ? rate : took;

	return value && within(value, (value + MILLION / 2) / MILLION * MILLION, tolerance);
}

static bool holds(const struct known *known)
{
	if (!known->took)
		return false;
	if (!known->cycles)
		return whole(known->took, MILLION / 100);
	return within(known->took, known->cycles, MILLION / 1000);
}

static void complain(struct meter *meter)
{
	const char *between = "self-test failed: ";
	size_t used = 0;

	meter->refused[0] = 0;
	for (unsigned int i = 0; i < KNOWN_LOOPS; i++) {
		const struct known *k = &meter->known[i];

		if (k->held)
			continue;
		used += scnprintf(meter->refused + used, sizeof(meter->refused) - used,
				  "%s%s at %llu.%06llu cycles an instruction, not %s", between,
				  k->name, k->took / MILLION, k->took % MILLION,
				  k->cycles == 3 * MILLION ? "3"
				  : k->cycles		   ? "1"
							   : "whole");
		between = "; ";
	}
}

void self_test(struct meter *meter, const struct run *given)
{
	static const struct known known[KNOWN_LOOPS] = {
	    {"add chain", call_chain_add, MILLION},
	    {arch_chain_name, arch_chain, arch_chain_cycles * MILLION},
	    {"load stream", call_stream_load},
	    {"taken branches", call_taken_branches},
	};
	struct reading *r = kvzalloc(sizeof(*r), GFP_KERNEL);
	struct run run = {.cpu = given->cpu};

	if (!r) {
		strscpy(meter->refused, "no memory", sizeof(meter->refused));
		return;
	}
	memcpy(meter->known, known, sizeof(known));
	run.selection.samples = SAMPLES;
	for (int i = 0; i < ATTEMPTS && !run.stop; i++) {
		meter->refused[0] = 0;
		for (meter->tested = 0; meter->tested < KNOWN_LOOPS; meter->tested++) {
			struct known *k = &meter->known[meter->tested];

			run.stop = READ_ONCE(given->stop);
			meter_read(meter, &run, k->code, NULL, NULL, r);
			k->took = *r->refused ? 0 : div64_u64(r->median, CHAIN_LENGTH);
			k->held = holds(k);
		}
		complain(meter);
		if (!*meter->refused)
			break;
	}
	kvfree(r);
}

static void record_known(const char *key, u64 value)
{
	if (value)
		record_millionths(key, value);
	else
		record_null(key);
}

void self_test_describe(const struct meter *meter)
{
	record_array_open("self_test");
	for (unsigned int i = 0; i < meter->tested; i++) {
		const struct known *k = &meter->known[i];

		record_item_open();
		record_string("name", k->name);
		record_known("cycles", k->took);
		record_known("known", k->cycles);
		record_integer("held", k->held);
		record_item_close();
	}
	record_array_close();
}
