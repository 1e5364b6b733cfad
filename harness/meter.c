// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "meter.h"

#include "chains.h"
#include "loops.h"
#include "pin.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MANY 8		/* repetitions of which one more takes no time */
#define TRIES 3		/* of which the quickest counts */
#define PROBES 2000	/* of the clock */
#define PROBING 5000000 /* ns */

static const struct code calibrator = {.run = chain_add};

static uint64_t burst(const struct meter *meter, const struct code *code, uint64_t times)
{
	uint64_t from = meter->clock->begin(), took;

	code->run(times);
	took = meter->clock->end() - from;
	return took > meter->overhead ? took - meter->overhead : 1;
}

/* Run code once, so that finding it and its page is not part of a burst; cheap in many. */
static void fetch(const struct code *code, uint64_t times)
{
	if (times >= MANY && !code->prepare)
		code->run(1);
}

static u64 quickest(void *data, const struct code *code, u64 times)
{
	const struct meter *meter = data;
	u64 best = ~0ull, took;

	for (int i = 0; i < TRIES; i++) {
		if (code->prepare)
			code->prepare(code->data, times);
		fetch(code, times);
		took = burst(meter, code, times);
		best = took < best ? took : best;
	}
	return best;
}

static void warm_up(void *data, const struct code *code, u64 times, unsigned int ns)
{
	double end = clock_seconds() + ns * 1e-9;

	(void)data;
	do
		code->run(times);
	while (clock_seconds() < end);
}

static bool pause_for(void *data, unsigned int us)
{
	(void)data;
	usleep(us);
	return true;
}

static uint64_t calibrate(const struct meter *meter, uint64_t iterations)
{
	if (meter->clock->counts_cycles)
		return iterations * CHAIN_LENGTH;
	fetch(&calibrator, iterations);
	return burst(meter, &calibrator, iterations);
}

static uint64_t sing(const struct meter *meter, const struct canary *canary)
{
	if (!canary->cycles)
		return 0;
	fetch(canary->code, canary->times);
	return burst(meter, canary->code, canary->times);
}

static uint64_t instructions(const struct meter *meter)
{
	return meter->clock->instructions ? meter->clock->instructions() : 0;
}

static bool take(void *data, const struct plan *plan, bool first, struct sample *s)
{
	struct meter *meter = data;
	const struct canary *canary = meter->gauge.canary;
	const struct code *code = plan->target[0];
	uint64_t before, behind;

	if (code->prepare)
		code->prepare(code->data, plan->times);
	/* Neighbours share a calibration, unless something was done between them. */
	s->before = first || code->prepare ? calibrate(meter, plan->calibrations) : meter->behind;
	before = meter->clock->disturbed();
	s->canary[0] = sing(meter, &canary[0]);
	for (unsigned int t = 0; t < plan->targets; t++) {
		fetch(plan->target[t], plan->times);
		s->instructions -= instructions(meter);
		s->target[t] = burst(meter, plan->target[t], plan->times);
		s->instructions += instructions(meter);
	}
	behind = meter->clock->disturbed();
	s->canary[1] = sing(meter, &canary[1]);
	s->behind = meter->behind = calibrate(meter, plan->calibrations);
	s->disturbed = before != behind || behind != meter->clock->disturbed();
	return true;
}

/* Whether anything can be measured; else the reading says why not. */
static bool usable(const struct meter *meter, struct reading *r)
{
	memset(r, 0, sizeof(*r));
	memcpy(r->refused, meter->gauge.refused, sizeof(r->refused));
	return !*r->refused;
}

void meter_read(struct meter *meter, const struct code *code, unsigned int turns_left,
		struct series *series, struct reading *r)
{
	struct plan plan = {.gauge = &meter->gauge, .target = {code}, .targets = 1};

	plan.most = code->prepare ? SERIES_COLD : SERIES_HOT;
	if (!usable(meter, r))
		return;
	if (series->count)
		gauge_resume(&plan, series);
	else if (gauge_plan(&plan, code->prepare ? code->most : ~0ull, 0, r))
		gauge_begin(&plan, series);
	else
		return;
	if (turns_left)
		gauge_take(&plan, (GAUGE_SAMPLES - series->count) / (turns_left + 1), series);
	else
		gauge_read(&plan, GAUGE_SAMPLES, series, r);
}

void meter_read_slope(struct meter *meter, const struct code *shorter, const struct code *longer,
		      unsigned int samples, struct series *series, struct reading *r)
{
	const struct gauge *g = &meter->gauge;
	struct plan plan = {.gauge = g, .target = {shorter, longer}, .targets = 2};
	unsigned int parts;
	bool brief;

	if (!usable(meter, r))
		return;
	/* A brief series has bursts of half the periods, where there are several. */
	brief = samples < SERIES_LEAST;
	parts = brief && g->burst_ns > GAUGE_PERIOD ? 2 : 1;
	plan.most = SERIES_HOT;
	plan.bursts = (3 + parts - 1) / parts;
	plan.calibrations = g->calibrations / parts;
	plan.times = gauge_times(g, longer, 2 * g->burst / parts, ~0ull);
	gauge_begin(&plan, series);
	series->brief = brief ? samples : 0;
	gauge_read(&plan, samples, series, r);
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Find the smallest step of the clock, how fast it ticks and what reading it takes. */
static void probe(struct meter *meter)
{
	uint64_t step = 0, empty = ~0ull, last = meter->clock->begin(), first = last;
	double began = clock_seconds(), ended;

	for (int i = 0; i < PROBES; i++) {
		uint64_t from = meter->clock->begin(), to = meter->clock->end();

		step = divisor(step, from - last);
		empty = to - from < empty ? to - from : empty;
		last = from;
	}
	do
		ended = clock_seconds();
	while (ended < began + PROBING * 1e-9);
	last = meter->clock->begin();
	meter->overhead = empty;
	meter->gauge.granularity = meter->clock->counts_cycles ? 1 : step;
	meter->gauge.hz = meter->clock->counts_cycles ? 0 : (last - first) / (ended - began);
}

void meter_open(struct meter *meter)
{
	static struct workspace room;
	struct gauge *g = &meter->gauge;
	unsigned int count;

	memset(meter, 0, sizeof(*meter));
	meter->environment = (struct environment){quickest, take, warm_up, pause_for, meter};
	g->environment = &meter->environment;
	g->calibrator = &calibrator;
	meter->cpu = pin();
	meter->clock = clock_find(meter->passed_over, sizeof(meter->passed_over));
	if (!meter->clock) {
		snprintf(g->refused, sizeof(g->refused), "%.200s", meter->passed_over);
		return;
	}
	if (meter->cpu < 0) {
		snprintf(g->refused, sizeof(g->refused), "cannot pin to a CPU");
		return;
	}
	probe(meter);
	gauge_open(g, loops_known(&count), &room);
}

void meter_test_rest(struct meter *meter)
{
	static struct workspace room;
	unsigned int count;
	const struct known *loops = loops_known(&count);

	gauge_test_rest(&meter->gauge, loops, count, &room);
}
