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
#define SLICES 16	/* of a burst, at most: an even number; of two targets half as many */
#define LEAST_SLICE 32	/* iterations of the chain in one, at least */
#define LOOKS 128	/* for a quiet core, most of a series */
#define LOOKS_ALONE 512 /* and of a request to wait for one, */
#define LOOKS_QUIET 4	/* of the last 16, by which it is quiet often enough */
#define ENDS 256	/* slices by which it is known what ending one takes */

static const struct code calibrator = {.run = chain_add};

static uint64_t burst(const struct meter *meter, const struct code *code, uint64_t times)
{
	uint64_t from = meter->clock->begin(), took;

	code->run(times);
	took = meter->clock->end() - from;
	return took > meter->overhead ? took - meter->overhead : 1;
}

/* Run code once, so that fetching it and its translation is not part of a burst. */
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

/* The number of slices, if the plan asks for some; prepared code needs a whole burst. */
static unsigned int slices_of(const struct plan *plan)
{
	unsigned int most = plan->slices / plan->targets;

	if (plan->slices < 2 || plan->target[0]->prepare)
		return 1;
	while (most > 1 && (plan->times < most || plan->calibrations < LEAST_SLICE * most))
		most /= 2;
	return most;
}

/* Time a slice of some repetitions; how it ends is in none. */
static uint64_t slice(const struct meter *meter, const struct code *code, uint64_t times,
		      unsigned int number, unsigned int slices)
{
	uint64_t part = times * (number + 1) / slices - times * number / slices, took;

	if (!part)
		return 0;
	took = burst(meter, code, part);
	return took > meter->ends ? took - meter->ends : 1;
}

/*
 * Take a sample whose calibrations, canaries and targets are timed alternately, so that all see the
 * same speeds of a core that changes its own. The first and the last calibration count half. Every
 * second one is added to `before`, the others to `behind`: a disturbance of one of them makes these
 * differ.
 */
static void take_slices(struct meter *meter, const struct plan *plan, unsigned int slices,
			struct sample *s)
{
	const struct canary *canary = meter->gauge.canary;
	uint64_t each = plan->calibrations / slices, side[2] = {0, 0}, both, apart, took, cpu;

	fetch(&calibrator, each);
	for (unsigned int t = 0; t < plan->targets; t++)
		fetch(plan->target[t], plan->times);
	side[0] = slice(meter, &calibrator, each, 0, 1) / 2;
	cpu = meter->clock->disturbed();
	for (unsigned int i = 0; i < slices; i++) {
		for (int c = 0; c < SERIES_CANARIES; c++)
			if (canary[c].cycles)
				s->canary[c] +=
				    slice(meter, canary[c].code, canary[c].times, i, slices);
		for (unsigned int t = 0; t < plan->targets; t++)
			s->target[t] += slice(meter, plan->target[t], plan->times, i, slices);
		took = slice(meter, &calibrator, each, 0, 1);
		side[(i + 1) % 2] += i + 1 < slices ? took : took / 2;
		s->disturbed |= cpu != meter->clock->disturbed();
	}
	both = integers_scale(side[0] + side[1], plan->calibrations, each * slices);
	apart = integers_apart(side[0], side[1]) / 2;
	s->before = both - apart;
	s->behind = both + apart;
}

static bool take(void *data, const struct plan *plan, bool first, struct sample *s)
{
	struct meter *meter = data;
	const struct canary *canary = meter->gauge.canary;
	const struct code *code = plan->target[0];
	unsigned int slices = slices_of(plan);
	uint64_t before, behind;

	if (slices > 1) {
		take_slices(meter, plan, slices, s);
		return true;
	}
	if (code->prepare)
		code->prepare(code->data, plan->times);
	/* Adjacent samples share a calibration, unless something was done between them. */
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

/* True if measuring is possible; else the reading has the reason. */
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
	plan.slices = meter->gauge.slices;
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
	plan.slices = g->slices;
	do {
		gauge_begin(&plan, series);
		series->brief = brief ? samples : 0;
		gauge_read(&plan, samples, series, r);
	} while (gauge_may_slice(&plan, r) && (plan.slices = g->environment->slices));
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

/*
 * The ticks for leaving a loop, which is mispredicted: two slices have it twice. Each pair is
 * around a slice as long as both, because the core may change its speed.
 */
static uint64_t ends(const struct meter *meter)
{
	const uint64_t few = 8 * LEAST_SLICE;
	uint64_t more[ENDS], two, pair;

	for (int i = 0; i < ENDS; i++) {
		pair = burst(meter, &calibrator, few);
		two = burst(meter, &calibrator, 2 * few);
		pair += burst(meter, &calibrator, few);
		more[i] = pair > two ? pair - two : 0;
	}
	integers_sort(more, ENDS);
	return integers_quantile(more, ENDS, 50);
}

/* Find the smallest step of the clock, its rate, and the cost of reading it. */
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
	meter->ends = ends(meter);
	meter->gauge.granularity = meter->clock->counts_cycles ? 1 : step;
	meter->gauge.hz = meter->clock->counts_cycles ? 0 : (last - first) / (ended - began);
}

void meter_open(struct meter *meter)
{
	static struct workspace room;
	struct gauge *g = &meter->gauge;
	unsigned int count;

	memset(meter, 0, sizeof(*meter));
	meter->environment =
	    (struct environment){quickest, take, warm_up, pause_for, 1, meter, LOOKS};
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
	if (!meter->clock->counts_cycles)
		meter->environment.slices = SLICES;
	gauge_open(g, loops_known(&count), &room);
}

bool meter_await_quiet(const struct meter *meter)
{
	uint16_t quiet = 0; /* a bit for each of the last looks */

	if (*meter->gauge.refused)
		return false;
	for (int i = 0; i < LOOKS_ALONE; i++) {
		quiet = quiet << 1 | gauge_is_quiet(&meter->gauge);
		if (__builtin_popcount(quiet) >= LOOKS_QUIET)
			return true;
		usleep(GAUGE_LOOK_PAUSE);
	}
	return false;
}

void meter_test_rest(struct meter *meter)
{
	static struct workspace room;
	unsigned int count;
	const struct known *loops = loops_known(&count);

	gauge_test_rest(&meter->gauge, loops, count, &room);
}
