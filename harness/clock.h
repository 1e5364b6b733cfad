/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clocks, one per file. A clock counts core cycles, or ticks, which need calibration. */
#ifndef HARNESS_CLOCK_H
#define HARNESS_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock {
	const char *name;
	bool counts_cycles;
	/* Prepare the clock in this process; -1 with the reason in why if this machine lacks it. */
	int (*open)(char *why, size_t size);
	/* Read the count, ordered with the code before and after. */
	uint64_t (*begin)(void);
	uint64_t (*end)(void);
	/* A value that changes when a burst was disturbed and the clock can detect it. */
	uint64_t (*disturbed)(void);
	/* Instructions so far, or NULL if the clock does not count them. */
	uint64_t (*instructions)(void);
};

extern const struct clock clock_perf;	      /* perf_event, read from user space */
extern const struct clock clock_of_machine[]; /* the ISA's constant-rate counter, one element */

/* Open the best clock available, or NULL; why has the reason against each better one. */
const struct clock *clock_find(char *why, size_t size);

/* Wall time, for what needs no precision. */
double clock_seconds(void);

/*
 * The ISA-specific part of clock_perf: read the counter that perf_event set up, whether reading it
 * is supported, and the values of config1 to request it with, the last of them 0.
 */
uint64_t clock_read_counter(uint32_t index);
bool clock_counter_known(uint32_t index);
extern const uint64_t clock_perf_config1[];

#endif
