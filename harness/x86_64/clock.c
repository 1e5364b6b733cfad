// SPDX-License-Identifier: GPL-2.0-or-later
/* The time-stamp counter, which ticks at a constant rate at any core clock. */
#include "../clock.h"

#include <cpuid.h>
#include <stdio.h>

#define INVARIANT_TSC (1u << 8)

static uint32_t aux;

static int open_tsc(char *why, size_t size)
{
	uint32_t a, b, c, d;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & INVARIANT_TSC)) {
		snprintf(why, size, "this CPU does not promise a constant rate");
		return -1;
	}
	return 0;
}

static uint64_t begin_tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

static uint64_t end_tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(aux)::"memory");
	return (uint64_t)high << 32 | low;
}

/* The CPU that the last end was read on: a migration shows. */
static uint64_t disturbed_tsc(void)
{
	return aux;
}

const struct clock clock_of_machine[] = {{
    .name = "tsc-calibrated",
    .open = open_tsc,
    .begin = begin_tsc,
    .end = end_tsc,
    .disturbed = disturbed_tsc,
}};

const uint64_t clock_perf_config1[] = {0};

bool clock_counter_known(uint32_t index)
{
	return index;
}

uint64_t clock_read_counter(uint32_t index)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdpmc\n\tlfence"
			 : "=a"(low), "=d"(high)
			 : "c"(index - 1)
			 : "memory");
	return (uint64_t)high << 32 | low;
}
