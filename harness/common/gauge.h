/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How cycles are measured, but for what user space and the kernel do in ways of their own: read a
 * clock, run code, wait. harness/README.md describes the protocol.
 */
#ifndef HARNESS_GAUGE_H
#define HARNESS_GAUGE_H

#include "known.h"

#define GAUGE_PERIOD 32000  /* ns: bursts are whole periods of a spread-spectrum clock */
#define GAUGE_SAMPLES 48    /* of a series, unless others are asked for */
#define GAUGE_GROWTH 6	    /* a series that is disturbed grows to so many times its samples */
#define GAUGE_CANARY_PART 4 /* a canary takes one part in so many of a burst */

struct gauge;

/* Something that repeats; what it is the environment knows. */
struct code;

/* What a sample consists of, between two calibrations; canaries stand around the targets. */
struct plan {
	const struct gauge *gauge;
	const struct code *target[SERIES_TARGETS];
	unsigned int targets;
	unsigned int most;   /* SERIES_HOT or SERIES_COLD */
	u64 times;	     /* repetitions of each target */
	u64 calibrations;    /* iterations of the calibrator */
	unsigned int bursts; /* that all targets take */
	unsigned int slices; /* of each target, between calibrations of their own: see sliced() */
	u64 control;	     /* where the target is a stream for comparison: see struct sample */
};

/* What the environment does; data is its own. */
struct environment {
	/* The quickest of three bursts of code, in ticks, at least 1; 0 where none can be timed. */
	u64 (*quickest)(void *data, const struct code *code, u64 times);
	/* Take a sample, the first after a pause or not; false where nothing can be timed. */
	bool (*take)(void *data, const struct plan *plan, bool first, struct sample *sample);
	/* Run code for so long without timing it. */
	void (*warm_up)(void *data, const struct code *code, u64 times, unsigned int ns);
	/* Let others run; false where it is time to end. */
	bool (*pause)(void *data, unsigned int us);
	unsigned int slices; /* most that take can make of a burst; 1 where it makes none */
	void *data;
};

struct canary {
	const struct code *code;
	u64 times;
	u64 cycles; /* that so many times take alone, in millionths; 0: not known yet */
};

struct gauge {
	const struct environment *environment;
	const struct code *calibrator; /* CHAIN_LENGTH cycles an iteration, on every core */
	u64 hz;			       /* ticks a second; 0 for a clock that counts cycles */
	u64 granularity;	       /* ticks: the smallest step of the clock */
	unsigned int burst_ns;
	u64 burst;	     /* ticks, or cycles */
	u64 calibrations;    /* iterations of the calibrator in a burst */
	unsigned int slices; /* of a burst: 1 where the core keeps one speed for as long */
	struct canary canary[SERIES_CANARIES];
	struct known_test tests[KNOWN_LOOPS];
	unsigned int tested;
	char refused[SERIES_REASON]; /* why nothing is measured here, or empty */
};

/* Room for a series: too much for a kernel's stack. */
struct workspace {
	struct series series;
	struct reading reading;
};

/*
 * Size bursts for the clock that the gauge names, and check it on the loops that are known, the
 * required ones first: a gauge that they do not hold for refuses, and says why.
 */
void gauge_open(struct gauge *gauge, const struct known *loops, struct workspace *room);

/* Measure the other loops that are known, once. */
void gauge_test_rest(struct gauge *gauge, const struct known *loops, unsigned int count,
		     struct workspace *room);

/*
 * Repetitions of the first target that fill a burst, at most so many, and calibrations that take
 * as long; longest is the most bursts that one may take, 0 for any number. False, with the reason
 * in reading, where there are none.
 */
bool gauge_plan(struct plan *plan, u64 most, unsigned int longest, struct reading *reading);

/*
 * Repetitions that fill so many ticks, at most so many; 0 where the clock does not move, or no
 * burst can be timed.
 */
u64 gauge_times(const struct gauge *gauge, const struct code *code, u64 ticks, u64 most);

/*
 * Whether a series was refused that slices may bring: calibrations around a sample differ where the
 * core changes its speed within it, and agree where they are taken in parts between those of it.
 */
bool gauge_may_slice(const struct plan *plan, const struct reading *reading);

/* Begin a series of the targets of a plan. */
void gauge_begin(const struct plan *plan, struct series *series);

/*
 * Go on with a series in another turn, some time after the last: a plan of the same targets is
 * told how often they are repeated.
 */
void gauge_resume(struct plan *plan, struct series *series);

/* Add so many samples to a series; false where it is time to end. */
bool gauge_take(const struct plan *plan, unsigned int samples, struct series *series);

/*
 * Fill up a series that was begun to so many samples, or more where some are of no use, and make
 * of them a reading.
 */
void gauge_read(const struct plan *plan, unsigned int samples, struct series *series,
		struct reading *reading);

#endif
