// SPDX-License-Identifier: GPL-2.0-or-later
/* Hold perf_page_read to a page that is made up: widths, offsets, the lock, missing counters. */
#include "perf_page.h"

#include <assert.h>
#include <stdio.h>

static struct perf_event_mmap_page page;
static uint64_t counter;
static int reads, changes;

/* What the kernel does while user space reads, as often as changes says. */
static uint64_t read_made_up(uint32_t index)
{
	reads++;
	assert(index == 3);
	if (changes) {
		changes--;
		page.lock += 2;
		page.offset += 1000;
	}
	return counter;
}

static uint64_t must_read(void)
{
	uint64_t count;

	assert(perf_page_read(&page, read_made_up, &count));
	return count;
}

int main(void)
{
	uint64_t count;

	page.cap_user_rdpmc = 1;
	page.index = 3;
	page.pmc_width = 48;
	page.offset = 100;
	counter = 5;
	assert(must_read() == 105);

	/* The kernel starts counters below zero: 48 bits of it are a negative number. */
	counter = (1ull << 48) - 60;
	assert(must_read() == 40);
	/* What lies above the width is not the counter's. */
	counter |= 0xabcull << 48;
	assert(must_read() == 40);
	page.pmc_width = 32;
	counter = 0xffffffffull;
	assert(must_read() == 99);
	counter = 0x7fffffffull;
	assert(must_read() == 100 + 0x7fffffffull);
	page.pmc_width = 64;
	counter = -1ull;
	assert(must_read() == 99);

	/* Read again, until the page stood still. */
	counter = 7;
	reads = 0;
	changes = 2;
	assert(must_read() == 2107);
	assert(reads == 3);

	page.index = 0;
	assert(!perf_page_read(&page, read_made_up, &count));
	page.index = 3;
	page.cap_user_rdpmc = 0;
	assert(!perf_page_read(&page, read_made_up, &count));
	assert(reads == 3);
	puts("held");
	return 0;
}
