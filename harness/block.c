// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "block.h"

#include "answer.h"
#include "block_machine.h"
#include "block_memory.h"
#include "block_seal.h"
#include "block_signal.h"
#include "block_subject.h"
#include "child.h"
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 24 /* of both */
#define LEAST_COPIES 16
#define TRIAL_SECONDS 0.1     /* of CPU */
#define MEASURING_SECONDS 3.0 /* of CPU */
#define WATCHDOG_SECONDS 20   /* of wall time, for all */
#define SETTLING 8

/* The answer of the block's process; nothing in it is trusted. */
struct outcome {
	struct workspace room;
	uint64_t times[BOTH];
	int64_t stopped; /* where the last signal found it, in bytes from its entry */
	int pages;
	bool misaligned;
	bool unsealed;
	bool crowded;	/* not measured: fewer copies would touch fewer pages, or take less */
	bool disturbed; /* refused by the meter, not for what the block does */
	char refused[SERIES_REASON];
};

struct work {
	const struct job *job;
	struct meter *meter;
	uint64_t times[BOTH];
	uint32_t step; /* between the registers' pointers */
	struct outcome *outcome;
	double seconds; /* that all of it took */
};

/* True if other pointers are still to be tried. */
static bool is_first_step(const struct work *w)
{
	return w->step == block_steps[0] && block_steps[1];
}

static bool can_halve(const struct work *w)
{
	return !block_is_loop(w->job) && w->times[SHORT] / 2 >= LEAST_COPIES;
}

static void look_for_misalignment(struct outcome *outcome)
{
	if (!block_flags_aligned)
		return;
	block_frame.flags |= block_flags_aligned;
	block_run_short(1);
	block_frame.flags &= ~block_flags_aligned;
	outcome->misaligned = block_signal_misaligned();
}

/* Run until no new page is touched; false if that does not happen. */
static bool settle(struct outcome *outcome)
{
	for (int i = 0; i < SETTLING; i++) {
		int before = block_memory_pages();

		block_run_long(2);
		block_run_short(1);
		outcome->crowded = block_signal_overflowed();
		if (outcome->crowded)
			return false;
		if (block_memory_pages() == before)
			return true;
	}
	snprintf(outcome->refused, sizeof(outcome->refused), "touches other pages each time");
	return false;
}

/*
 * The long code fills two bursts, the short one repeats as often in the same sample: the overhead
 * of a burst, for entering and leaving the block, is the same in both.
 */
static void measure(const struct work *w)
{
	static const struct code code[BOTH] = {{.run = block_run_short}, {.run = block_run_long}};
	struct outcome *o = w->outcome;

	o->pages = block_memory_pages();
	for (int i = 0; i < BOTH; i++)
		o->times[i] = block_is_loop(w->job) ? block_iterations(i) : w->times[i];
	meter_read_slope(w->meter, &code[SHORT], &code[LONG],
			 w->job->samples ? w->job->samples : SAMPLES, &o->room.series,
			 &o->room.reading);
	memcpy(o->refused, o->room.reading.refused, sizeof(o->refused));
	o->disturbed = *o->refused;
	if (!o->disturbed && block_memory_pages() != o->pages)
		snprintf(o->refused, sizeof(o->refused),
			 "touches other pages while it is measured");
}

static void work(void *data)
{
	struct work *w = data;
	struct outcome *o = w->outcome;
	char *why = o->refused;
	size_t size = sizeof(o->refused);
	int sealed;

	block_seal_files();
	/* A process must open its own counter. */
	if (w->meter->clock && w->meter->clock->open(why, size))
		return;
	if (block_machine_init(why, size) || block_memory_open(w->job, why, size) ||
	    !block_place(w->job, w->times, w->step, &(struct block_end){why, size, &o->stopped}))
		return;
	sealed = block_seal(why, size);
	if (sealed < 0)
		return;
	o->unsealed = sealed > 0;
	if (o->unsealed && block_calls_system(w->job->code, w->job->code_size)) {
		snprintf(why, size, "holds a system call, and nothing here stops one");
		return;
	}
	block_signal_within(TRIAL_SECONDS);
	block_signal_lenient(can_halve(w));
	look_for_misalignment(o);
	if (o->misaligned && is_first_step(w))
		return;
	if (block_is_loop(w->job))
		block_choose_iterations(w->times);
	if (!settle(o))
		return;
	o->crowded = can_halve(w) && block_is_long();
	if (o->crowded)
		return;
	block_signal_within(MEASURING_SECONDS);
	measure(w);
}

/* True if a reading is plausible: the block's process may have written anything. */
static bool sound(const struct outcome *o)
{
	const struct reading *r = &o->room.reading;

	return r->p10 <= r->median && r->median <= r->p90 && r->samples &&
	       r->samples <= r->accepted && r->accepted <= r->taken && r->taken <= SERIES_MOST &&
	       o->times[LONG] > o->times[SHORT];
}

/* Append the two speeds, if there are two, to the reason of a refusal. */
static void name_speeds(struct outcome *o)
{
	const struct reading *r = &o->room.reading;
	double one = 1e-6 / (o->times[LONG] - o->times[SHORT]);
	size_t used = strlen(o->refused);
	/* Two speeds that differ by less than what is printed are one. */
	bool differ = one * fabs((double)r->speed[0] - r->speed[1]) >= 0.01;

	if (r->unsteady && r->speed[1] && differ && o->times[LONG] > o->times[SHORT])
		snprintf(o->refused + used, sizeof(o->refused) - used,
			 ", by turns around %.2f and %.2f cycles", r->speed[0] * one,
			 r->speed[1] * one);
}

/* Return the reason for no figure, or "". Text from the block's process is terminated first. */
static const char *refusal(struct outcome *o)
{
	o->refused[sizeof(o->refused) - 1] = 0;
	o->room.reading.two_speeds[sizeof(o->room.reading.two_speeds) - 1] = 0;
	name_speeds(o);
	if (*o->refused)
		return o->refused;
	if (!sound(o))
		return "its process answered what cannot be";
	/* An impossible slope is no property of the block. */
	o->disturbed = !o->room.reading.median;
	return o->disturbed ? "more of it takes no longer" : "";
}

/* Run the block in a process of its own. */
static void attempt(const struct work *w)
{
	char why[128];

	memset(w->outcome, 0, sizeof(*w->outcome));
	if (child_run(work, (void *)w, WATCHDOG_SECONDS, why, sizeof(why)))
		snprintf(w->outcome->refused, sizeof(w->outcome->refused), "%s", why);
}

static void print(const struct work *w, const char *refused)
{
	const struct outcome *o = w->outcome;
	const struct reading *r = &o->room.reading;
	double one = 1e-6 / (o->times[LONG] - o->times[SHORT]);

	json_open();
	json_string("id", w->job->id);
	json_integer("offset", w->job->offset);
	json_number("cycles", *refused ? NAN : r->median * one);
	json_number("p10", *refused ? NAN : r->p10 * one);
	json_number("p90", *refused ? NAN : r->p90 * one);
	json_integer("samples", *refused ? 0 : r->samples);
	answer_left_out(r);
	if (w->job->series)
		answer_series(&o->room.series);
	json_integer("short", o->times[SHORT]);
	json_integer("long", o->times[LONG]);
	json_integer("pages", o->pages);
	json_integer("shared", o->pages > BLOCK_DISTINCT);
	json_integer("misaligned", o->misaligned);
	json_integer("stopped", o->stopped);
	json_integer("unsealed", o->unsealed);
	json_integer("disturbed", o->disturbed);
	json_integer("unsteady", o->disturbed && r->unsteady);
	json_number("milliseconds", 1e3 * w->seconds);
	json_integer("core_hz", r->core_hz);
	json_string("clock", w->meter->clock ? w->meter->clock->name : "");
	json_integer("cpu", w->meter->cpu);
	json_string("refused", refused);
	json_close();
}

void block_job(const struct job *job, struct meter *meter)
{
	struct work w = {.job = job,
			 .meter = meter,
			 .times = {job->times[SHORT], job->times[LONG]},
			 .step = block_steps[job->wide && block_steps[1] ? 1 : 0],
			 .outcome = child_share(sizeof(*w.outcome))};
	struct outcome *outcome = w.outcome;
	double began = clock_seconds();

	attempt(&w);
	if (outcome->misaligned && is_first_step(&w)) {
		w.step = block_steps[1];
		attempt(&w);
	}
	while (outcome->crowded && can_halve(&w)) {
		w.times[SHORT] /= 2;
		w.times[LONG] = 2 * w.times[SHORT];
		attempt(&w);
	}
	w.seconds = clock_seconds() - began;
	print(&w, refusal(outcome));
	child_unshare(outcome, sizeof(*outcome));
}
