/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clocks: one a file. A clock counts core cycles, or ticks that bursts must be calibrated in. */
#ifndef HARNESS_CLOCK_H
#define HARNESS_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock {
	const char *name;
	bool counts_cycles;
	/* Make ready in this process; -1 and why where this machine does not have it. */
	int (*open)(char *why, size_t size);
	/* Read the count, ordered against the code before and behind. */
	uint64_t (*begin)(void);
	uint64_t (*end)(void);
	/* A value that changes when a burst was disturbed in a way that the clock can see. */
	uint64_t (*disturbed)(void);
	/* Instructions so far, or NULL where the clock does not know them. */
	uint64_t (*instructions)(void);
};

extern const struct clock clock_perf;	      /* perf_event, read from user space */
extern const struct clock clock_of_machine[]; /* the ISA's constant-rate counter, one element */

/* Open the best clock that there is, or NULL; why says what is wrong with each better one. */
const struct clock *clock_find(char *why, size_t size);

/* Wall time, for what needs no precision. */
double clock_seconds(void);

/*
 * The machine-specific part of clock_perf: read the counter that perf_event set up, whether that is
 * known how, and the values of config1 to ask for it with, the last of them 0.
 */
uint64_t clock_read_counter(uint32_t index);
bool clock_counter_known(uint32_t index);
extern const uint64_t clock_perf_config1[];

#endif
