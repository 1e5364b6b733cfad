// SPDX-License-Identifier: GPL-2.0-or-later
#include "meter.h"

#include "chains.h"
#include "json.h"
#include "pin.h"
#include "self_test.h"
#include "statistics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES METER_SAMPLES
#define ATTEMPTS 6
#define LEAST_SAMPLES 12
#define PERIOD METER_PERIOD
#define RESOLUTION 2e-4	 /* most of a burst that a step of the clock may be */
#define WARM_UP 1e-3	 /* s */
#define MANY 8		 /* repetitions of which one more takes no time */
#define SAME_CLOCK 1e-3	 /* most that the calibrations around a sample may differ */
#define SLOW_CLOCK 1.06	 /* most that a calibration may be above the quick ones */
#define INTERRUPTED 1.03 /* most that a sample may be above the quick ones */
#define FROM_MEMORY 1.10 /* the same where samples wait for memory, which varies by itself */
#define INTERRUPTS 4	 /* instructions: a return from one may count in user mode */
#define SHARED 1.1	 /* a stream that is slower by this shares the core */
#define LEAST_ACCEPTED 0.4
#define LEAST_KEPT (1.0 / 3)

static double burst(const struct meter *meter, repeat code, uint64_t times)
{
	uint64_t from = meter->clock->begin();

	code(times);
	return meter->clock->end() - from - meter->overhead;
}

/* Run code once, so that finding it and its page is not part of a burst; cheap in many. */
static void fetch(repeat code, uint64_t times)
{
	if (times >= MANY)
		code(1);
}

static double target_burst(const struct meter *meter, const struct target *target, uint64_t times)
{
	if (target->prepare)
		target->prepare(target->data, times);
	else
		fetch(target->code, times);
	return burst(meter, target->code, times);
}

static double quickest(const struct meter *meter, const struct target *target, uint64_t times)
{
	double best = INFINITY;

	for (int i = 0; i < 3; i++)
		best = fmin(best, target_burst(meter, target, times));
	return fmax(best, 1);
}

/* Repetitions that fill a burst, as far as they can be prepared; at least one. */
static uint64_t times_for(const struct meter *meter, const struct target *target, double ticks)
{
	uint64_t most = target->prepare ? target->most : UINT64_MAX, times = 1;
	double took;

	while ((took = quickest(meter, target, times)) < ticks / 8 && times <= most / 2)
		times *= 2;
	return fmin(most, fmax(1, round(times * ticks / took)));
}

static void warm_up(const struct meter *meter, const struct target *target, uint64_t times)
{
	double end = clock_seconds() + meter->warm_up;

	do
		target->code(times);
	while (clock_seconds() < end);
}

/* Calibrations before and behind each sample; what the clock saw disturb it before, between, at. */
struct series {
	double target[SAMPLES];
	double before[SAMPLES];
	double behind[SAMPLES];
	uint64_t disturbed[SAMPLES][3];
	uint64_t instructions[SAMPLES]; /* 0 where the clock does not know */
};

static double calibrate(const struct meter *meter)
{
	if (meter->clock->counts_cycles)
		return meter->calibrations * CHAIN_LENGTH;
	fetch(chain_add, meter->calibrations);
	return burst(meter, chain_add, meter->calibrations);
}

static uint64_t instructions(const struct meter *meter)
{
	return meter->clock->instructions ? meter->clock->instructions() : 0;
}

static void sample(const struct meter *meter, const struct target *target, uint64_t times,
		   struct series *s)
{
	for (int i = 0; i < meter->samples; i++) {
		if (target->prepare)
			target->prepare(target->data, times);
		/* Neighbours share a calibration, unless something was done between them. */
		s->before[i] = i && !target->prepare ? s->behind[i - 1] : calibrate(meter);
		s->disturbed[i][0] = meter->clock->disturbed();
		if (!target->prepare)
			fetch(target->code, times);
		s->instructions[i] = instructions(meter);
		s->target[i] = burst(meter, target->code, times);
		s->instructions[i] = instructions(meter) - s->instructions[i];
		s->disturbed[i][1] = meter->clock->disturbed();
		s->behind[i] = calibrate(meter);
		s->disturbed[i][2] = meter->clock->disturbed();
	}
}

/* The least that any sample took: nothing that disturbs a burst takes instructions away. */
static uint64_t least_instructions(const struct meter *meter, const struct series *s)
{
	uint64_t least = s->instructions[0];

	for (int i = 1; i < meter->samples; i++)
		least = s->instructions[i] < least ? s->instructions[i] : least;
	return least;
}

static bool acceptable(const struct series *s, int i, double slowest, uint64_t least)
{
	double before = s->before[i], behind = s->behind[i];
	const uint64_t *disturbed = s->disturbed[i];

	return s->instructions[i] <= least + INTERRUPTS && disturbed[0] == disturbed[1] &&
	       disturbed[1] == disturbed[2] && fabs(before - behind) < SAME_CLOCK * before &&
	       fmax(before, behind) <= slowest;
}

/* Turn a series into a reading; false, with the reason, where too little of it is acceptable. */
static bool judge(const struct meter *meter, const struct series *s, uint64_t times, double most,
		  struct reading *r)
{
	double sorted[SAMPLES], cycles[SAMPLES], hz[SAMPLES];
	double known = meter->calibrations * CHAIN_LENGTH, quick;
	uint64_t least = least_instructions(meter, s);
	int accepted = 0, kept = 0;

	memcpy(sorted, s->behind, sizeof(sorted));
	sort(sorted, meter->samples);
	quick = quantile(sorted, meter->samples, 0.1);
	for (int i = 0; i < meter->samples; i++) {
		double calibration = (s->before[i] + s->behind[i]) / 2;

		if (!acceptable(s, i, SLOW_CLOCK * quick, least))
			continue;
		hz[accepted] = known / calibration * meter->ticks_a_second;
		r->sample[accepted] = cycles[accepted] = s->target[i] / calibration * known / times;
		accepted++;
	}
	if (accepted < LEAST_ACCEPTED * meter->samples) {
		snprintf(r->refused, sizeof(r->refused),
			 "disturbed: %d of %d samples acceptable, %.0f needed", accepted,
			 meter->samples, ceil(LEAST_ACCEPTED * meter->samples));
		return false;
	}
	sort(cycles, accepted);
	sort(hz, accepted);
	quick = quantile(cycles, accepted, 0.1);
	for (int i = 0; i < accepted; i++)
		if (r->sample[i] <= most * quick)
			r->sample[kept++] = r->sample[i];
	if (kept < LEAST_KEPT * accepted || kept < LEAST_SAMPLES) {
		snprintf(r->refused, sizeof(r->refused),
			 "disturbed: %d of %d samples are not interrupted", kept, accepted);
		return false;
	}
	r->median = quantile(cycles, kept, 0.5);
	r->p10 = quantile(cycles, kept, 0.1);
	r->p90 = quantile(cycles, kept, 0.9);
	r->samples = kept;
	r->core_hz = quantile(hz, accepted, 0.5);
	r->refused[0] = 0;
	return true;
}

/*
 * Whether the streams of the self-test still run at the rate that they had then: a thread that
 * came to share the core since slows all but chains. Their quickest bursts count.
 */
static bool alone(const struct meter *meter)
{
	const struct target chain = {.code = chain_add};
	double ticks = quickest(meter, &chain, meter->calibrations);

	for (int i = 0; i < meter->ntests; i++) {
		const struct self_test *test = &meter->tests[i];
		const struct target stream = {.code = test->known.code};

		if (test->known.canary && test->held &&
		    quickest(meter, &stream, meter->calibrations) > SHARED * test->cycles * ticks)
			return false;
	}
	return true;
}

struct reading meter_read(const struct meter *meter, const struct target *target)
{
	const struct target chain = {.code = chain_add};
	struct reading reading = {0};
	struct series series;
	struct meter own = *meter;
	double most = target->prepare ? FROM_MEMORY : INTERRUPTED;
	uint64_t times;
	double ticks;

	if (*meter->refused) {
		snprintf(reading.refused, sizeof(reading.refused), "%.150s", meter->refused);
		return reading;
	}
	ticks = quickest(meter, &chain, meter->calibrations);
	times = target->times ? target->times : times_for(meter, target, ticks);
	reading.times = times;
	/* One repetition may be longer than a burst: calibrate as long. */
	if (times == 1)
		own.calibrations *= fmax(1, round(quickest(meter, target, 1) / ticks));
	while (reading.attempts++ < ATTEMPTS) {
		warm_up(&own, target, times);
		sample(&own, target, times, &series);
		if (!judge(&own, &series, times, most, &reading))
			continue;
		if (alone(meter) || alone(meter))
			return reading;
		snprintf(reading.refused, sizeof(reading.refused),
			 "something shares the core: streams of the self-test are slow");
	}
	reading.attempts = ATTEMPTS;
	return reading;
}

/* Find the smallest step of the clock and what reading it takes. */
static void probe(struct meter *meter)
{
	double step = INFINITY, empty = INFINITY, began = clock_seconds(), ended;
	uint64_t last = meter->clock->begin(), first = last;

	for (int i = 0; i < 2000; i++) {
		uint64_t from = meter->clock->begin(), to = meter->clock->end();

		if (from > last)
			step = fmin(step, from - last);
		empty = fmin(empty, to - from);
		last = from;
	}
	for (int i = 0; i < 2000; i++) {
		uint64_t now = meter->clock->begin();

		/* Steps are multiples of the smallest, so the difference of two is one, too. */
		if (now > last && fmod(now - last, step) > 0)
			step = fmod(now - last, step);
		last = now;
	}
	do
		ended = clock_seconds();
	while (ended < began + 5e-3);
	last = meter->clock->begin();
	meter->granularity = meter->clock->counts_cycles ? 1 : step;
	meter->ticks_a_second = meter->clock->counts_cycles ? 0 : (last - first) / (ended - began);
	meter->overhead = empty;
}

static void size_bursts(struct meter *meter)
{
	double began, took = INFINITY, steps = 1;

	if (!meter->clock->counts_cycles)
		steps = ceil(meter->granularity / meter->ticks_a_second / RESOLUTION / PERIOD);
	meter->burst_seconds = fmax(1, steps) * PERIOD;
	meter->calibrations = 1000;
	/* The quickest: one that was interrupted would make all bursts too short for the clock. */
	for (int i = 0; i < 10; i++) {
		began = clock_seconds();
		chain_add(10 * meter->calibrations);
		took = fmin(took, clock_seconds() - began);
	}
	meter->calibrations *= 10 * meter->burst_seconds / took;
}

void meter_open(struct meter *meter)
{
	memset(meter, 0, sizeof(*meter));
	meter->samples = SAMPLES;
	meter->warm_up = WARM_UP;
	meter->cpu = pin();
	meter->clock = clock_find(meter->passed_over, sizeof(meter->passed_over));
	if (!meter->clock) {
		memcpy(meter->refused, meter->passed_over, sizeof(meter->refused));
		return;
	}
	if (meter->cpu < 0) {
		snprintf(meter->refused, sizeof(meter->refused), "cannot pin to a CPU");
		return;
	}
	probe(meter);
	size_bursts(meter);
	self_test_open(meter);
}

void meter_print(const struct meter *meter)
{
	json_string("clock", meter->clock ? meter->clock->name : "");
	json_integer("cpu", meter->cpu);
	json_number("ticks_a_second", meter->ticks_a_second);
	json_number("granularity_ticks", meter->granularity);
	json_number("burst_us", meter->burst_seconds * 1e6);
	json_string("passed_over", meter->passed_over);
	json_string("refused", meter->refused);
	self_test_print(meter);
}
