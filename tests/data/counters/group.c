// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Count software events, which every kernel has, by the code that counts cycles: a group, its
 * times, its page, which lets no counter be read. Prints what the system lacks.
 */
#include "perf_group.h"
#include "perf_page.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t never(uint32_t index)
{
	(void)index;
	assert(0);
	return 0;
}

int main(void)
{
	struct perf_event_wanted events[] = {
	    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0, false},
	    {PERF_TYPE_HARDWARE, 0xffff, 0, true}, /* no such event */
	    {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0, false},
	};
	struct perf_event_mmap_page *page;
	struct perf_counts before, behind;
	struct perf_group group;
	uint64_t count;

	if (perf_group_open(&group, events, 3)) {
		printf("%s\n", strerror(errno));
		return 0;
	}
	assert(group.fd[1] < 0);
	assert(perf_group_read(&group, &before));
	for (int i = 0; i < 20; i++)
		usleep(1000);
	assert(perf_group_read(&group, &behind));
	assert(behind.count[2] >= before.count[2] + 10);
	assert(behind.count[0] > before.count[0]);
	assert(!behind.count[1]);
	assert(behind.enabled > before.enabled);
	assert(behind.enabled == behind.running);

	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, group.fd[0], 0);
	assert(page != MAP_FAILED);
	assert(!perf_page_read(page, never, &count));
	perf_group_close(&group);
	assert(!perf_group_read(&group, &behind));

	events[1].optional = false;
	assert(perf_group_open(&group, events, 3));
	assert(errno && group.fd[0] < 0);
	puts("held");
	return 0;
}
