// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "block.h"

#include "block_machine.h"
#include "block_memory.h"
#include "block_seal.h"
#include "block_signal.h"
#include "child.h"
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 65536   /* at least */
#define SAMPLES 20   /* of each of the two */
#define WARM_UP 2e-4 /* s: the trial has run the code */
#define LEAST_COPIES 16
#define LEAST_TRIPS 256	      /* fewer, and the loop's exit weighs too much */
#define LEAST_SECONDS 32e-6   /* of a loop, where the meter has no burst */
#define TRIAL_SECONDS 0.1     /* of CPU */
#define MEASURING_SECONDS 3.0 /* of CPU */
#define WATCHDOG_SECONDS 20   /* of wall time, for all */
#define SETTLING 8

enum { SHORT, LONG, BOTH };

/* What the block's process says; nothing in it is trusted. */
struct outcome {
	struct reading reading[BOTH];
	uint64_t times[BOTH];
	int pages;
	bool misaligned;
	bool unsealed;
	bool crowded;	/* not measured: fewer copies would touch fewer pages */
	bool disturbed; /* refused by the meter, not for what the block does */
	char refused[160];
};

struct work {
	const struct job *job;
	const struct meter *meter;
	uint64_t times[BOTH];
	uint32_t step; /* between the registers' pointers */
	struct outcome *outcome;
};

struct block_frame block_frame;

/* The code that is run, and the trips of a loop. */
static struct {
	uintptr_t entry;
	uint64_t trips;
} subject[BOTH];

static void run_subject(int which, uint64_t repetitions)
{
	block_frame.entry = subject[which].entry;
	block_frame.trips = subject[which].trips;
	block_call(repetitions);
}

static void run_short(uint64_t repetitions)
{
	run_subject(SHORT, repetitions);
}

static void run_long(uint64_t repetitions)
{
	run_subject(LONG, repetitions);
}

/* Whether other pointers are still to be tried. */
static bool is_first_step(const struct work *w)
{
	return w->step == block_steps[0] && block_steps[1];
}

static bool is_loop(const struct job *job)
{
	return job->counter >= 0;
}

static bool can_halve(const struct work *w)
{
	return !is_loop(w->job) && w->times[SHORT] / 2 >= LEAST_COPIES;
}

/* Make both codes; a loop is one, with two trip counts. Returns false with the reason. */
static bool place(const struct work *w, char *why, size_t size)
{
	const struct job *job = w->job;
	size_t bytes[BOTH], all = 0;
	uint8_t *buffer, *code;

	for (int i = 0; i < BOTH; i++) {
		bytes[i] = BLOCK_GLUE + (is_loop(job) ? 1 : w->times[i]) * job->code_size;
		bytes[i] = (bytes[i] + PAGE - 1) / PAGE * PAGE;
		all += bytes[i];
		subject[i].trips = 1;
	}
	buffer = calloc(1, all);
	for (int i = 0; i < BOTH; i++)
		block_emit(buffer + i * bytes[SHORT], job, is_loop(job) ? 1 : w->times[i], w->step);
	code = block_memory_code(buffer, all, why, size);
	if (!code)
		return false;
	block_signal_open(code, all, why, size);
	for (int i = 0; i < BOTH; i++)
		subject[i].entry = (uintptr_t)code + (is_loop(job) ? 0 : i * bytes[SHORT]);
	free(buffer);
	return true;
}

static double seconds_of(uint64_t trips)
{
	double began;

	subject[LONG].trips = trips;
	run_long(1);
	began = clock_seconds();
	run_long(1);
	return clock_seconds() - began;
}

/* Find trip counts that fill a burst, but whose memory fits the pages. */
static void choose_trips(const struct work *w)
{
	const uint64_t *most = w->times;
	double enough = fmax(w->meter->burst_seconds, LEAST_SECONDS) / 2;
	uint64_t trips = 2;

	block_signal_lenient(true);
	while (trips < most[LONG] && seconds_of(trips) < enough && !block_signal_overflowed())
		trips = 2 * trips < most[LONG] ? 2 * trips : most[LONG];
	if (block_signal_overflowed())
		trips = trips / 2 > LEAST_TRIPS ? trips / 2 : LEAST_TRIPS;
	block_signal_lenient(false);
	subject[LONG].trips = trips;
	subject[SHORT].trips = fmax(1, trips * most[SHORT] / most[LONG]);
}

static void look_for_misalignment(struct outcome *outcome)
{
	if (!block_flags_aligned)
		return;
	block_frame.flags |= block_flags_aligned;
	run_short(1);
	block_frame.flags &= ~block_flags_aligned;
	outcome->misaligned = block_signal_misaligned();
}

/* Run until no page is touched for the first time; false where that does not come. */
static bool settle(struct outcome *outcome)
{
	for (int i = 0; i < SETTLING; i++) {
		int before = block_memory_pages();

		run_long(2);
		run_short(1);
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
 * The long one fills a burst, the short one repeats as often: what a burst takes besides, to go to
 * the block's side and back, is the same in both. Half a burst, too, has to be a whole period.
 */
static void measure(const struct work *w)
{
	struct outcome *o = w->outcome;
	struct meter meter = *w->meter;
	struct target target = {0};

	meter.samples = SAMPLES;
	meter.warm_up = WARM_UP;
	if (meter.burst_seconds < 2 * METER_PERIOD)
		meter.calibrations *= 2;
	o->pages = block_memory_pages();
	for (int i = LONG; i >= SHORT; i--) {
		target.code = i == SHORT ? run_short : run_long;
		o->times[i] = is_loop(w->job) ? subject[i].trips : w->times[i];
		o->reading[i] = meter_read(&meter, &target);
		if (*o->reading[i].refused) {
			memcpy(o->refused, o->reading[i].refused, sizeof(o->refused));
			o->disturbed = true;
			return;
		}
		target.times = o->reading[i].times;
	}
	if (block_memory_pages() != o->pages)
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
	if (block_machine_init(why, size) || block_memory_open(why, size) || !place(w, why, size))
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
	if (is_loop(w->job))
		choose_trips(w);
	if (!settle(o))
		return;
	block_signal_within(MEASURING_SECONDS);
	measure(w);
}

/* Whether a reading can be one: the block's process may have written anything. */
static bool sound(const struct reading *r)
{
	return isfinite(r->p10) && isfinite(r->p90) && r->p10 > 0 && r->p10 <= r->median &&
	       r->median <= r->p90 && r->samples > 0 && r->samples <= SAMPLES;
}

/* Turn both readings into the cycles of one copy, or one trip: errors add as independent ones. */
static struct reading slope(const struct work *w)
{
	const struct outcome *o = w->outcome;
	const struct reading *from = &o->reading[SHORT], *to = &o->reading[LONG];
	double count = (double)o->times[LONG] - (double)o->times[SHORT];
	struct reading r = {0};

	memcpy(r.refused, o->refused, sizeof(r.refused) - 1);
	if (*r.refused)
		return r;
	if (!sound(from) || !sound(to) || count <= 0) {
		snprintf(r.refused, sizeof(r.refused), "its process answered what cannot be");
		return r;
	}
	r.median = (to->median - from->median) / count;
	r.p10 = r.median - hypot(to->median - to->p10, from->p90 - from->median) / count;
	r.p90 = r.median + hypot(to->p90 - to->median, from->median - from->p10) / count;
	r.samples = from->samples + to->samples;
	r.core_hz = (from->core_hz + to->core_hz) / 2;
	if (r.median <= 0)
		snprintf(r.refused, sizeof(r.refused), "more of it takes no longer");
	return r;
}

/* Run the block in a process of its own. */
static void attempt(const struct work *w)
{
	char why[128];

	memset(w->outcome, 0, sizeof(*w->outcome));
	if (child_run(work, (void *)w, WATCHDOG_SECONDS, why, sizeof(why)))
		snprintf(w->outcome->refused, sizeof(w->outcome->refused), "%s", why);
}

void block_job(const struct job *job, const struct meter *meter)
{
	struct work w = {.job = job,
			 .meter = meter,
			 .times = {job->times[SHORT], job->times[LONG]},
			 .step = block_steps[0],
			 .outcome = child_share(sizeof(*w.outcome))};
	struct outcome *outcome = w.outcome;
	struct reading r;

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
	r = slope(&w);
	json_open();
	json_string("id", job->id);
	json_integer("offset", job->offset);
	json_number("cycles", *r.refused ? NAN : r.median);
	json_number("p10", *r.refused ? NAN : r.p10);
	json_number("p90", *r.refused ? NAN : r.p90);
	json_integer("samples", r.samples);
	json_integer("short", outcome->times[SHORT]);
	json_integer("long", outcome->times[LONG]);
	json_integer("pages", outcome->pages);
	json_integer("shared", outcome->pages > BLOCK_DISTINCT);
	json_integer("misaligned", outcome->misaligned);
	json_integer("unsealed", outcome->unsealed);
	/* A slope that cannot be is none of the block's doing. */
	json_integer("disturbed", outcome->disturbed || (!*outcome->refused && *r.refused));
	json_number("core_hz", r.core_hz);
	json_string("clock", meter->clock ? meter->clock->name : "");
	json_integer("cpu", meter->cpu);
	json_string("refused", r.refused);
	json_close();
	child_unshare(outcome, sizeof(*outcome));
}
