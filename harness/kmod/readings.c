// SPDX-License-Identifier: GPL-2.0-or-later
#include "readings.h"

#include "records.h"

static void figure(const char *key, u64 value, bool refused)
{
	if (refused)
		record_null(key);
	else
		record_millionths(key, value);
}

static void self_test(const struct gauge *gauge)
{
	record_array_open("self_test");
	for (unsigned int i = 0; i < gauge->tested; i++) {
		const struct known_test *t = &gauge->tests[i];

		record_item_open();
		record_string("name", t->known.name);
		figure("cycles", t->cycles, *t->refused);
		figure("known", t->expected, !t->expected);
		record_string("basis", t->known.cycles ? "documented" : "whole");
		record_millionths("tolerance", t->known.tolerance);
		record_integer("held", t->held);
		record_string("refused", t->refused);
		record_item_close();
	}
	record_array_close();
}

void readings_meter(const struct meter *meter)
{
	record_string("clock", meter->clock);
	record_integer("ticks_a_second", meter->gauge.hz);
	record_integer("granularity_ticks", meter->gauge.granularity);
	record_integer("burst_us", meter->gauge.burst_ns / 1000);
	record_string("passed_over", meter->passed_over);
	record_string("refused", meter->gauge.refused);
	self_test(&meter->gauge);
}

void readings_one(const struct reading *r)
{
	figure("cycles", r->median, *r->refused);
	figure("p10", r->p10, *r->refused);
	figure("p90", r->p90, *r->refused);
	record_array("samples", r->sample, *r->refused ? 0 : r->samples);
	record_integer("taken", r->taken);
	record_integer("accepted", r->accepted);
	record_integer("slow", r->slow);
	record_millionths("slow_explained", r->expected * (MILLION / 100));
	record_millionths("slow_from", r->slow_from * (MILLION / 1000));
	record_millionths("slow_to", r->slow_to * (MILLION / 1000));
	record_string("two_speeds", r->two_speeds);
	record_integer("core_hz", r->core_hz);
}
