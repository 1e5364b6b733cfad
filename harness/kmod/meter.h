/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cycles of calls, by bursts with interrupts off: common/gauge.h by the clocks of a kernel. */
#ifndef LOOPWRIGHT_METER_H
#define LOOPWRIGHT_METER_H

#include "common/gauge.h"
#include "kmod.h"

#define MOST_SAMPLES 256
#define LEAST_SAMPLES 12

struct perf_event;

/* Repeated calls; whole returns true if the last one was complete, where it may fail. */
struct code {
	caller run;
	struct call *call;
	bool (*whole)(const struct run *run, const struct call *call);
};

struct meter {
	struct gauge gauge;
	struct environment environment;
	const char *clock;
	struct perf_event *event; /* the PMU's cycles, or NULL: the timer, calibrated */
	const char *passed_over;  /* why not a better clock */
	const struct run *run;
	u64 overhead; /* ticks that reading the clock twice takes */
	bool stalled; /* bursts took far longer than the counter says: nothing is timed any more */
};

/* Find a clock for the CPU that this thread is bound to, and check it on known loops. */
void meter_open(struct meter *meter, const struct run *run, struct workspace *room);
void meter_close(struct meter *meter);

/* Measure calls into the reading of room. */
void meter_read(struct meter *meter, const struct code *code, struct workspace *room);

#endif
