// SPDX-License-Identifier: GPL-2.0-or-later
/* The generic timer: 25 MHz to 1 GHz, so that bursts must be long. */
#define _GNU_SOURCE
#include "../clock.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define PMCCNTR 32 /* the index by which perf_event names the cycle counter, plus one */

/* QEMU's user emulation shows the host's /proc/cpuinfo, or one without a CPU that exists. */
static bool emulated(void)
{
	char line[256];
	bool found = false;
	FILE *file = fopen("/proc/cpuinfo", "r");

	if (!file)
		return true;
	while (!found && fgets(line, sizeof(line), file))
		found = !strncmp(line, "CPU implementer", 15);
	fclose(file);
	return !found;
}

static int open_cntvct(char *why, size_t size)
{
	if (!emulated())
		return 0;
	snprintf(why, size, "emulated: no timing");
	return -1;
}

static uint64_t read_cntvct(void)
{
	uint64_t count;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(count)::"memory");
	return count;
}

static uint64_t disturbed_cntvct(void)
{
	return sched_getcpu();
}

const struct clock clock_of_machine[] = {{
    .name = "cntvct-calibrated",
    .open = open_cntvct,
    .begin = read_cntvct,
    .end = read_cntvct,
    .disturbed = disturbed_cntvct,
}};

uint64_t clock_perf_config1(void)
{
	return 3; /* read by user space, 64 bits wide */
}

uint64_t clock_read_counter(uint32_t index)
{
	uint64_t count = 0;

	if (index == PMCCNTR)
		__asm__ volatile("isb\n\tmrs %0, pmccntr_el0\n\tisb" : "=r"(count)::"memory");
	return count;
}
