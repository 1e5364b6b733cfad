/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cycles of repeated code in user space: common/gauge.h with the clocks of clock.h. */
#ifndef HARNESS_METER_H
#define HARNESS_METER_H

#include "clock.h"
#include "common/gauge.h"

/* Code that repeats something so many times, and the preparation of each burst. */
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

/* Pin this process, find a clock, and check it on known loops. */
void meter_open(struct meter *meter);

/* Wait for a core that is often quiet, half a second; false where none comes, or nothing can be
 * measured. */
bool meter_await_quiet(const struct meter *meter);

/* Measure the other known loops, once. */
void meter_test_rest(struct meter *meter);

/*
 * Cycles for one repetition, from series, which is empty at first. It may be taken in turns, some
 * time apart: the reading is complete when none is left.
 */
void meter_read(struct meter *meter, const struct code *code, unsigned int turns_left,
		struct series *series, struct reading *reading);

/*
 * Cycles of `long` less those of `short`: both are timed in each sample, `long` for two bursts,
 * `short` for as many repetitions.
 */
void meter_read_slope(struct meter *meter, const struct code *shorter, const struct code *longer,
		      unsigned int samples, struct series *series, struct reading *reading);

#endif
