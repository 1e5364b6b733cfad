// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "self_test.h"

#include "json.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define ATTEMPTS 6
#define PAUSE 250000 /* us: what shares the core may be gone by then */

/* Measure a known loop; what was refused is not a number. */
static struct self_test test(const struct meter *meter, const struct known *known)
{
	struct target target = {.code = known->code};
	struct reading reading = meter_read(meter, &target);
	double cycles = *reading.refused ? NAN : reading.median / CHAIN_LENGTH;

	double expected = known_cycles(known, cycles);

	return (struct self_test){*known, cycles, expected,
				  fabs(cycles / expected - 1) <= known->tolerance};
}

static bool complain(struct meter *meter)
{
	const char *between = "self-test failed: ";
	size_t size = sizeof(meter->refused), used = 0;

	meter->refused[0] = 0;
	for (int i = 0; i < meter->ntests; i++) {
		const struct self_test *t = &meter->tests[i];

		if (t->held || used >= size)
			continue;
		used += snprintf(meter->refused + used, size - used,
				 "%s%s at %.4f cycles an instruction, not %.4g", between,
				 t->known.name, t->cycles, t->expected);
		between = "; ";
	}
	return used;
}

void self_test_open(struct meter *meter)
{
	struct known loops[KNOWN_LOOPS];
	int required = 0;

	known_loops(loops);
	while (loops[required].required)
		required++;
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		meter->refused[0] = 0;
		for (meter->ntests = 0; meter->ntests < required; meter->ntests++)
			meter->tests[meter->ntests] = test(meter, &loops[meter->ntests]);
		if (!complain(meter))
			return;
		usleep(PAUSE);
	}
}

void self_test_rest(struct meter *meter)
{
	struct known loops[KNOWN_LOOPS];
	int known = known_loops(loops);

	for (; meter->ntests && meter->ntests < known; meter->ntests++)
		meter->tests[meter->ntests] = test(meter, &loops[meter->ntests]);
}

void self_test_print(const struct meter *meter)
{
	json_array_open("self_test");
	for (int i = 0; i < meter->ntests; i++) {
		const struct self_test *t = &meter->tests[i];

		json_item_open();
		json_string("name", t->known.name);
		json_number("cycles", t->cycles);
		json_number("known", t->expected);
		json_string("basis", t->known.cycles ? "documented" : "whole");
		json_number("tolerance", t->known.tolerance);
		json_integer("held", t->held);
		json_object_close();
	}
	json_array_close();
}
