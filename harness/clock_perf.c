// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Core cycles in user mode, counted by the PMU and read without a system call. That the event
 * opens and maps proves nothing: the page must grant user reads and name a counter, and reading it
 * must not trap.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "perf_group.h"
#include "perf_page.h"
#include "trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CYCLES, INSTRUCTIONS, SWITCHES, EVENTS };

static struct perf_event_mmap_page *page;
static struct perf_group group = {{-1, -1, -1}};
static uint64_t unreadable; /* reads for which no counter was assigned, or the group was off */

static int open_group(void)
{
	const uint64_t *config1 = clock_perf_config1;
	struct perf_event_wanted events[EVENTS] = {
	    [CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, false},
	    [INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 0, false},
	    /* Without privileges they may not be counted: the self-test and timing notice them. */
	    [SWITCHES] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0, true},
	};

	perf_group_close(&group);
	do {
		events[CYCLES].config1 = *config1;
		if (!perf_group_open(&group, events, EVENTS))
			return 0;
	} while (*config1++);
	return -1;
}

/* The reason why the page does not allow reading cycles, or NULL. */
static const char *hindrance(void)
{
	if (!page->cap_user_rdpmc)
		return "user space may not read the cycle counter";
	if (!page->index)
		return "the cycle counter is in use";
	if (!clock_counter_known(page->index))
		return "cycles are not in the counter that user space can read";
	if (!trial_read(clock_read_counter, page->index))
		return "reading the cycle counter traps";
	return NULL;
}

static int open_perf(char *why, size_t size)
{
	struct perf_counts counts;
	const char *hinders;

	if (open_group()) {
		snprintf(why, size, "no cycle counter (perf_event_open: %s)%s", strerror(errno),
			 errno == ENOENT ? ": no PMU here" : "");
		return -1;
	}
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, group.fd[CYCLES], 0);
	if (page == MAP_FAILED) {
		snprintf(why, size, "the cycle counter cannot be mapped: %s", strerror(errno));
		perf_group_close(&group);
		return -1;
	}
	hinders = hindrance();
	if (!hinders && (!perf_group_read(&group, &counts) || counts.enabled != counts.running))
		hinders = "cycles and instructions are not counted together all the time";
	if (!hinders)
		return 0;
	snprintf(why, size, "%s", hinders);
	munmap(page, sysconf(_SC_PAGESIZE));
	perf_group_close(&group);
	return -1;
}

static uint64_t read_perf(void)
{
	uint64_t count;

	if (!perf_page_read(page, clock_read_counter, &count))
		unreadable++;
	return count;
}

/* Context switches, reads that failed, and time for which the counter was not on the PMU. */
static uint64_t disturbed_perf(void)
{
	struct perf_counts counts;

	if (!perf_group_read(&group, &counts))
		unreadable++;
	return counts.count[SWITCHES] + unreadable + (counts.enabled - counts.running);
}

static uint64_t instructions_perf(void)
{
	struct perf_counts counts;

	perf_group_read(&group, &counts);
	return counts.count[INSTRUCTIONS];
}

const struct clock clock_perf = {
    .name = "perf-rdpmc",
    .counts_cycles = true,
    .open = open_perf,
    .begin = read_perf,
    .end = read_perf,
    .disturbed = disturbed_perf,
    .instructions = instructions_perf,
};
