// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "perf_group.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_event(const struct perf_event_wanted *event, int leader)
{
	struct perf_event_attr attr = {
	    .type = event->type,
	    .size = sizeof(attr),
	    .config = event->config,
	    .config1 = event->config1,
	    .read_format =
		PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	    .pinned = leader < 0,
	    .exclude_kernel = event->type != PERF_TYPE_SOFTWARE,
	    .exclude_hv = event->type != PERF_TYPE_SOFTWARE,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

int perf_group_open(struct perf_group *group, const struct perf_event_wanted *events, int count)
{
	for (int i = 0; i < PERF_GROUP_EVENTS; i++)
		group->fd[i] = -1;
	for (int i = 0; i < count; i++) {
		group->fd[i] = open_event(&events[i], i ? group->fd[0] : -1);
		if (group->fd[i] < 0 && !events[i].optional) {
			int error = errno;

			perf_group_close(group);
			errno = error;
			return -1;
		}
	}
	return 0;
}

void perf_group_close(struct perf_group *group)
{
	for (int i = 0; i < PERF_GROUP_EVENTS; i++) {
		if (group->fd[i] >= 0)
			close(group->fd[i]);
		group->fd[i] = -1;
	}
}

bool perf_group_read(const struct perf_group *group, struct perf_counts *counts)
{
	uint64_t words[3 + PERF_GROUP_EVENTS]; /* how many, enabled, running, one of each event */
	ssize_t got = read(group->fd[0], words, sizeof(words));
	uint64_t *next = words + 3;

	memset(counts, 0, sizeof(*counts));
	/* A pinned group that did not get its counters reads as the end of a file. */
	if (got < (ssize_t)(4 * sizeof(*words)))
		return false;
	counts->enabled = words[1];
	counts->running = words[2];
	for (int i = 0; i < PERF_GROUP_EVENTS; i++)
		if (group->fd[i] >= 0)
			counts->count[i] = *next++;
	return true;
}
