/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cycles of calls, by bursts with interrupts off between calibrating bursts. */
#ifndef LOOPWRIGHT_METER_H
#define LOOPWRIGHT_METER_H

#include "kmod.h"

#define MOST_SAMPLES 256
#define LEAST_SAMPLES 12

struct perf_event;

/* What a loop of known cost took. */
struct known {
	const char *name;
	caller code;
	u64 cycles; /* an instruction, millionths; 0: whole, or a whole number a cycle */
	u64 took;   /* the same; 0: refused */
	bool held;
};
#define KNOWN_LOOPS 4

struct meter {
	const char *clock;
	struct perf_event *event; /* the PMU's cycles, or NULL: the timer, calibrated */
	const char *passed_over;  /* why not a better clock */
	unsigned int cpu;
	u64 hz; /* of the timer */
	u64 granularity;
	u64 overhead;
	u64 burst_ns;
	u64 burst;  /* ticks, or cycles */
	u64 chains; /* chain iterations in a burst */
	struct known known[KNOWN_LOOPS];
	unsigned int tested; /* of them */
	char refused[160];
};

struct reading {
	u64 median; /* millionths of a cycle a call, like all that follow */
	u64 p10;
	u64 p90;
	u64 sample[MOST_SAMPLES]; /* what was kept, in the order in which it was taken */
	unsigned int samples;
	unsigned int attempts; /* series taken */
	u64 core_hz;
	char refused[160];
};

/* Find a clock for the CPU that this thread is bound to, and check it on loops that are known. */
void meter_open(struct meter *meter, const struct run *run);
void meter_close(struct meter *meter);

/* Measure calls; whole says whether a call did all it was to do. */
void meter_read(const struct meter *meter, const struct run *run, caller code, struct call *call,
		bool (*whole)(const struct run *run, const struct call *call),
		struct reading *reading);

/* Members of a record that say what the meter is. */
void meter_describe(const struct meter *meter);

#endif
