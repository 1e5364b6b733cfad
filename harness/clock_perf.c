// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Core cycles in user mode, counted by the PMU and read without a system call. That the event
 * opens and maps proves nothing: the page must grant user reads and name a counter.
 */
#define _GNU_SOURCE
#include "clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct perf_event_mmap_page *page;
static int switches = -1;
static uint64_t unreadable; /* reads for which no counter was assigned */

static int open_event(uint32_t type, uint64_t config, uint64_t config1, bool user_only)
{
	struct perf_event_attr attr = {
	    .type = type,
	    .size = sizeof(attr),
	    .config = config,
	    .config1 = config1,
	    .pinned = user_only,
	    .exclude_kernel = user_only,
	    .exclude_hv = user_only,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static bool readable(void)
{
	return page->cap_user_rdpmc && page->index;
}

static int open_perf(char *why, size_t size)
{
	int fd =
	    open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, clock_perf_config1(), true);

	if (fd < 0) {
		snprintf(why, size, "no cycle counter (perf_event_open: %s)%s", strerror(errno),
			 errno == ENOENT ? ": no PMU here" : "");
		return -1;
	}
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		snprintf(why, size, "the cycle counter cannot be mapped: %s", strerror(errno));
		close(fd);
		return -1;
	}
	if (!readable()) {
		snprintf(why, size, "user space may not read the cycle counter%s",
			 page->cap_user_rdpmc ? ", or it is in use" : "");
		close(fd);
		return -1;
	}
	switches = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0, false);
	return 0;
}

static uint64_t extend(uint64_t count)
{
	int unused = 64 - page->pmc_width;

	return (uint64_t)((int64_t)(count << unused) >> unused);
}

static uint64_t read_perf(void)
{
	uint32_t sequence;
	uint64_t count;

	do {
		sequence = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		count = page->offset;
		if (readable())
			count += extend(clock_read_counter(page->index));
		else
			unreadable++;
		__atomic_thread_fence(__ATOMIC_ACQ_REL);
	} while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != sequence);
	return count;
}

/* Context switches, reads that failed, and time for which the counter was not on the PMU. */
static uint64_t disturbed_perf(void)
{
	uint64_t count = 0;

	if (switches >= 0 && read(switches, &count, sizeof(count)) != sizeof(count))
		count = 0;
	return count + unreadable + (page->time_enabled - page->time_running);
}

const struct clock clock_perf = {
    .name = "perf-rdpmc",
    .counts_cycles = true,
    .open = open_perf,
    .begin = read_perf,
    .end = read_perf,
    .disturbed = disturbed_perf,
};
