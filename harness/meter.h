/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cycles of code that runs again and again, in user space: common/gauge.h by a clock of ours. */
#ifndef HARNESS_METER_H
#define HARNESS_METER_H

#include "clock.h"
#include "common/gauge.h"

/* Code that repeats something so many times, and what is to be done before each burst. */
struct code {
	void (*run)(uint64_t times);
	void (*prepare)(const void *data, uint64_t times); /* or NULL */
	const void *data;
	uint64_t most; /* repetitions that prepare can prepare */
};

struct meter {
	struct gauge gauge;
	struct environment environment;
	const struct clock *clock;
	int cpu;
	uint64_t overhead;     /* ticks that reading the clock twice takes */
	uint64_t ends;	       /* and that the end of a slice takes besides */
	uint64_t behind;       /* the last calibration */
	char passed_over[320]; /* why better clocks cannot be used */
};

/* Pin this process, find a clock, and check it on loops that are known. */
void meter_open(struct meter *meter);

/* Measure the other loops that are known, once. */
void meter_test_rest(struct meter *meter);

/*
 * Cycles for one repetition; series, empty at first, is what they come from. It may be taken in
 * turns, some time apart: there is a reading when none is left.
 */
void meter_read(struct meter *meter, const struct code *code, unsigned int turns_left,
		struct series *series, struct reading *reading);

/*
 * Cycles that long takes beyond short: both are timed in each sample, long for two bursts, and
 * short for as many repetitions.
 */
void meter_read_slope(struct meter *meter, const struct code *shorter, const struct code *longer,
		      unsigned int samples, struct series *series, struct reading *reading);

#endif
