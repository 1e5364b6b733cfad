// SPDX-License-Identifier: GPL-2.0-or-later
#include "answer.h"

#include "facts.h"
#include "json.h"

static void figure(const char *key, uint64_t value, bool refused)
{
	if (refused)
		json_null(key);
	else
		json_millionths(key, value);
}

static void self_test(const struct gauge *gauge)
{
	json_array_open("self_test");
	for (unsigned int i = 0; i < gauge->tested; i++) {
		const struct known_test *t = &gauge->tests[i];

		json_item_open();
		json_string("name", t->known.name);
		figure("cycles", t->cycles, *t->refused);
		figure("known", t->expected, !t->expected);
		json_string("basis", t->known.cycles ? "documented" : "whole");
		json_millionths("tolerance", t->known.tolerance);
		json_integer("held", t->held);
		json_string("refused", t->refused);
		json_object_close();
	}
	json_array_close();
}

void answer_meter(const struct meter *meter)
{
	char fingerprint[FACTS_FINGERPRINT];

	/* It reveals readings that were appended to those of another machine. */
	facts_fingerprint(fingerprint);
	json_string("fingerprint", fingerprint);
	json_string("clock", meter->clock ? meter->clock->name : "");
	json_integer("cpu", meter->cpu);
	json_integer("ticks_a_second", meter->gauge.hz);
	json_integer("granularity_ticks", meter->gauge.granularity);
	json_number("burst_us", meter->gauge.burst_ns / 1e3);
	json_string("passed_over", meter->passed_over);
	json_string("refused", meter->gauge.refused);
	self_test(&meter->gauge);
}

void answer_left_out(const struct reading *r)
{
	json_integer("taken", r->taken);
	json_integer("accepted", r->accepted);
	json_integer("slow", r->slow);
	json_number("slow_explained", r->expected / 100.0);
	json_number("slow_from", r->slow_from / 1000.0);
	json_number("slow_to", r->slow_to / 1000.0);
	json_string("two_speeds", r->two_speeds);
}

void answer_reading(const struct reading *r)
{
	figure("cycles", r->median, *r->refused);
	figure("p10", r->p10, *r->refused);
	figure("p90", r->p90, *r->refused);
	json_array_open("samples");
	for (unsigned int i = 0; i < r->samples && !*r->refused; i++)
		json_item_millionths(r->sample[i]);
	json_array_close();
	answer_left_out(r);
	json_integer("core_hz", r->core_hz);
}

static void numbers(const uint64_t *values, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		json_item_integer(values[i]);
}

void answer_series(const struct series *s)
{
	unsigned int count = s->count < SERIES_MOST ? s->count : SERIES_MOST;

	json_array_open("series");
	json_item_integer(s->targets);
	json_item_integer(s->most);
	json_item_integer(s->repetitions);
	json_item_integer(s->known);
	json_item_integer(s->hz);
	numbers(s->canary, SERIES_CANARIES);
	json_item_integer(s->sliced);
	json_array_close();
	json_array_open("series_samples");
	for (unsigned int i = 0; i < count; i++) {
		const struct sample *one = &s->sample[i];

		json_item_array_open();
		json_item_integer(one->before);
		json_item_integer(one->behind);
		numbers(one->target, SERIES_TARGETS);
		numbers(one->canary, SERIES_CANARIES);
		json_item_integer(one->instructions);
		json_item_integer(one->control);
		json_item_integer(one->disturbed);
		json_item_integer(one->turn);
		json_array_close();
	}
	json_array_close();
}
