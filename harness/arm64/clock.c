// SPDX-License-Identifier: GPL-2.0-or-later
/* The generic timer: 25 MHz to 1 GHz, so that bursts must be long. */
#define _GNU_SOURCE
#include "../clock.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define PMCCNTR 32 /* the index by which perf_event names the cycle counter, plus one */

/*
 * User-mode emulation invents /proc/cpuinfo but passes /sys of the host through, whose kernel is no
 * arm64 one: no CPU there has an identification register.
 */
static bool emulated(void)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1",
		 sched_getcpu());
	return access(path, F_OK) != 0;
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

/* Read by user space: 64 bits wide or, where the PMU has no such counter left, 32. */
const uint64_t clock_perf_config1[] = {3, 2, 0};

bool clock_counter_known(uint32_t index)
{
	return index == PMCCNTR;
}

uint64_t clock_read_counter(uint32_t index)
{
	uint64_t count;

	(void)index;
	__asm__ volatile("isb\n\tmrs %0, pmccntr_el0\n\tisb" : "=r"(count)::"memory");
	return count;
}
