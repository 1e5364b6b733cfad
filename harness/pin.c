// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "pin.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define HIGHEST (-20) /* of the ordinary priorities */

/* Add up each CPU's column of the numbered lines of /proc/interrupts: those of devices. */
static void count_interrupts(uint64_t counts[CPU_SETSIZE])
{
	int column[CPU_SETSIZE], columns = 0;
	char *line = NULL, *at, *end;
	size_t room = 0;
	FILE *file = fopen("/proc/interrupts", "r");

	if (!file)
		return;
	if (getline(&line, &room, file) > 0)
		for (at = line; columns < CPU_SETSIZE && (at = strpbrk(at, "C")); at++)
			column[columns++] = atoi(at + 3);
	while (getline(&line, &room, file) > 0) {
		strtoul(line, &end, 10);
		if (*end != ':')
			continue;
		at = end + 1;
		for (int i = 0; i < columns; i++) {
			uint64_t count = strtoull(at, &end, 10);

			if (end == at)
				break;
			counts[column[i]] += count;
			at = end;
		}
	}
	free(line);
	fclose(file);
}

int pin_choice(void)
{
	uint64_t counts[CPU_SETSIZE] = {0};
	cpu_set_t set;
	int best = -1;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	count_interrupts(counts);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && (best < 0 || counts[cpu] < counts[best]))
			best = cpu;
	return best;
}

int pin(void)
{
	cpu_set_t set;
	int best = pin_choice();

	if (best < 0)
		return -1;
	/*
	 * With permission, run before everything without real-time priority, for fewer
	 * interruptions.
	 */
	setpriority(PRIO_PROCESS, 0, HIGHEST);
	CPU_ZERO(&set);
	CPU_SET(best, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -1 : best;
}
