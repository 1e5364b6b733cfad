/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cycles of code that runs again and again, by bursts between calibrating bursts. */
#ifndef HARNESS_METER_H
#define HARNESS_METER_H

#include "clock.h"
#include "known.h"

#define METER_SAMPLES 48
#define METER_PERIOD 32e-6 /* s: bursts are whole periods of a spread-spectrum clock */

/* Code that repeats something so many times. */
typedef void (*repeat)(uint64_t times);

/* What was measured of a loop that is known. */
struct self_test {
	struct known known;
	double cycles;	 /* an instruction; not finite where refused */
	double expected; /* what they are to be */
	bool held;
};

/* What is measured, and where every burst wants something done before it. */
struct target {
	repeat code;
	void (*prepare)(const void *data, uint64_t times); /* or NULL */
	const void *data;
	uint64_t most;	/* repetitions that prepare can prepare */
	uint64_t times; /* repetitions in a burst; 0: as many as fill it */
};

struct meter {
	const struct clock *clock;
	int cpu;
	double ticks_a_second; /* 0 for a clock that counts cycles */
	double granularity;    /* ticks: the smallest step of the clock */
	double overhead;       /* ticks that reading the clock twice takes */
	double burst_seconds;
	double warm_up;	       /* s, before a series */
	int samples;	       /* of a series, METER_SAMPLES at most */
	uint64_t calibrations; /* chain iterations in a burst */
	struct self_test tests[KNOWN_LOOPS];
	int ntests;
	char passed_over[320]; /* why better clocks cannot be used */
	char refused[320];     /* why nothing is measured here, or empty */
};

/*
 * Cycles for one repetition. refused says why there is no number, or is empty. Samples are those
 * that the figures are of, in the order in which they were taken.
 */
struct reading {
	double median;
	double p10;
	double p90;
	double sample[METER_SAMPLES];
	int samples;
	int attempts;	/* series taken; all but the last were refused */
	uint64_t times; /* repetitions in a burst */
	double core_hz; /* the core's clock during it; 0 where the clock counts cycles */
	char refused[160];
};

/* Pin this process, find a clock, and check it on loops that are known. */
void meter_open(struct meter *meter);

struct reading meter_read(const struct meter *meter, const struct target *target);

/* Print what the meter is, as members of a JSON object. */
void meter_print(const struct meter *meter);

#endif
