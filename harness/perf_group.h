/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of perf_event that are counted together. */
#ifndef HARNESS_PERF_GROUP_H
#define HARNESS_PERF_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#define PERF_GROUP_EVENTS 3 /* room */

struct perf_event_wanted {
	uint32_t type;
	uint64_t config;
	uint64_t config1;
	bool optional; /* the group stands without it; it reads 0 */
};

struct perf_group {
	int fd[PERF_GROUP_EVENTS]; /* the leader's first; -1 where an event is not there */
};

struct perf_counts {
	uint64_t enabled; /* ns for which the group was to count, and for which it did */
	uint64_t running;
	uint64_t count[PERF_GROUP_EVENTS];
};

/*
 * Open events of this process in user mode, pinned to the PMU; -1 with errno set if one that is not
 * optional does not open. Context switches happen in the kernel, and are counted there.
 */
int perf_group_open(struct perf_group *group, const struct perf_event_wanted *events, int count);
void perf_group_close(struct perf_group *group);

/* Read all counts; false where the group was thrown off the PMU. */
bool perf_group_read(const struct perf_group *group, struct perf_counts *counts);

#endif
