/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measurement of cycles, except for the parts that differ between user space and kernel: reading a
 * clock, running code, waiting. harness/README.md describes the protocol.
 */
#ifndef HARNESS_GAUGE_H
#define HARNESS_GAUGE_H

#include "known.h"

#define GAUGE_PERIOD 32000    /* ns: bursts are whole periods of a spread-spectrum clock */
#define GAUGE_SAMPLES 48      /* of a series, unless others are asked for */
#define GAUGE_GROWTH 6	      /* a series that is disturbed grows to so many times its samples */
#define GAUGE_CANARY_PART 4   /* a canary takes one part in so many of a burst */
#define GAUGE_LOOK_PAUSE 1000 /* us, behind a look for a quiet core in vain */

struct gauge;

/* Code that repeats; the environment defines it. */
struct code;

/* The parts of a sample between two calibrations; canaries are around the targets. */
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

/* The functions of the environment; data is its own. */
struct environment {
	/* The shortest of three bursts of code, in ticks, at least 1; 0 if none can be timed. */
	u64 (*quickest)(void *data, const struct code *code, u64 times);
	/* Take a sample, the first after a pause or not; false where nothing can be timed. */
	bool (*take)(void *data, const struct plan *plan, bool first, struct sample *sample);
	/* Run code for so long without timing it. */
	void (*warm_up)(void *data, const struct code *code, u64 times, unsigned int ns);
	/* Let other processes run; false if it is time to end. */
	bool (*pause)(void *data, unsigned int us);
	unsigned int slices; /* most that take can make of a burst; 1 where it makes none */
	void *data;
	unsigned int looks; /* most of a series for a quiet core; 0 where nothing waits for one */
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
	struct canary sentinel; /* the stream that tells a quiet core: before the self-test passes,
				 * one whose cycles are documented */
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
 * Size bursts for the clock of the gauge, and check it on the known loops, the required ones first:
 * a gauge that fails them refuses, with the reason.
 */
void gauge_open(struct gauge *gauge, const struct known *loops, struct workspace *room);

/* Measure the other known loops, once. */
void gauge_test_rest(struct gauge *gauge, const struct known *loops, unsigned int count,
		     struct workspace *room);

/*
 * Look whether nothing shares the core now: whether the sentinel is as fast as alone. True where no
 * sentinel is known.
 */
bool gauge_is_quiet(const struct gauge *gauge);

/*
 * Find the repetitions of the first target that fill a burst, up to a limit, and calibrations that
 * take as long; longest is the most bursts that one repetition may take, 0 for any number. False,
 * with the reason in reading, if there are none.
 */
bool gauge_plan(struct plan *plan, u64 most, unsigned int longest, struct reading *reading);

/*
 * Repetitions that fill so many ticks, at most so many; 0 where the clock does not move, or no
 * burst can be timed.
 */
u64 gauge_times(const struct gauge *gauge, const struct code *code, u64 ticks, u64 most);

/*
 * True if a refused series may be accepted with slices: calibrations around a sample differ where
 * the core changes its speed within it, and agree if they are taken in parts between those of it.
 */
bool gauge_may_slice(const struct plan *plan, const struct reading *reading);

/* Begin a series of the targets of a plan. */
void gauge_begin(const struct plan *plan, struct series *series);

/*
 * Continue a series in another turn, some time after the last: a plan of the same targets gets
 * their number of repetitions.
 */
void gauge_resume(struct plan *plan, struct series *series);

/* Add so many samples to a series; false where it is time to end. */
bool gauge_take(const struct plan *plan, unsigned int samples, struct series *series);

/*
 * Extend a begun series to so many samples, or more if some are of no use, and turn it into a
 * reading.
 */
void gauge_read(const struct plan *plan, unsigned int samples, struct series *series,
		struct reading *reading);

#endif
