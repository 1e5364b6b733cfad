/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The page by which the kernel lets user space read a counter of perf_event. */
#ifndef HARNESS_PERF_PAGE_H
#define HARNESS_PERF_PAGE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

/* Read a counter of the PMU by its number in the page; each ISA defines it. */
typedef uint64_t read_counter(uint32_t index);

/* A count of width bits, as the signed number that the page's offset is to be added to. */
static inline uint64_t perf_page_extend(uint64_t count, unsigned width)
{
	int unused = 64 - width;

	return (uint64_t)((int64_t)(count << unused) >> unused);
}

/*
 * Read the count by the protocol of the page's lock: a read during an update by the kernel is
 * repeated. false if the event has no readable counter.
 */
static inline bool perf_page_read(const struct perf_event_mmap_page *page, read_counter *read,
				  uint64_t *count)
{
	uint32_t sequence, index;
	bool readable;

	do {
		sequence = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		index = page->index;
		*count = page->offset;
		readable = page->cap_user_rdpmc && index;
		if (readable)
			*count += perf_page_extend(read(index), page->pmc_width);
		__atomic_thread_fence(__ATOMIC_ACQ_REL);
	} while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != sequence);
	return readable;
}

#endif
