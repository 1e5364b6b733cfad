// SPDX-License-Identifier: GPL-2.0-or-later
#include "cases.h"

#include "arena.h"
#include "attempt.h"

#define ALIGNMENTS 16
#define LINES 64
#define MIDDLE (4096 + 1024) /* in the arena: far from page ends */
#define PAGE_END 8192
#define PAGE 4096
#define PAGES 3 /* whose starts are tried where addresses are to be aligned */
#define MOST_RECORDS 64
#define MOST_RECORD_BYTES 1024
#define BOTH_FAULT 8 /* pairs of fault positions a size */
#define STRIDE 61    /* bytes between the fault positions of large sizes */

/* Offsets from a 64-byte line, and bytes before a page end, beside the alignments 0 to 15. */
static const uint8_t line_offsets[] = {16, 24, 31, 32, 33, 40, 47, 48, 55, 56, 57, 60, 61, 62, 63};
static const uint8_t page_distances[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64};

#define LINE_OFFSETS (sizeof(line_offsets))
#define LARGE_SIZES (sizeof(large_sizes) / sizeof(*large_sizes))
#define EDGES (LINE_OFFSETS + sizeof(page_distances))

/* Beyond the sizes that are tried in full: paths that only these take. */
static const size_t large_sizes[] = {777, 1024, 2049, 4096};

static const uint64_t seeds[] = {0, 1, 0xffff, 0xfffffffe, 0xffffffff, 0x8000abcd};

static const struct job *job;
static struct attempt attempt;
static uint64_t turn; /* rotates what is not tried in every combination */

static bool used(enum side side)
{
	return job->in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits;
}

static uint8_t *edge(enum side side, size_t i)
{
	uint8_t *start = attempt_side(side)->start;

	if (i < LINE_OFFSETS)
		return start + MIDDLE + line_offsets[i];
	return start + PAGE_END - page_distances[i - LINE_OFFSETS];
}

static uint8_t *first(enum side side)
{
	return attempt_side(side)->start;
}

/* Where a buffer starts whose first limit bytes are the last that can be accessed. */
static uint8_t *before_guard(enum side side, size_t limit)
{
	const struct arena *arena = attempt_side(side);

	return arena->start + arena->size - limit;
}

static void place(enum side side, uint8_t *at, size_t limit)
{
	attempt.at[side] = used(side) ? at : NULL;
	attempt.limit[side] = limit;
}

/* Place a whole buffer at an alignment; ALIGNMENTS itself is flush with the guard behind it. */
static void align(enum side side, size_t alignment)
{
	size_t bytes = attempt.bytes[side];

	place(side,
	      alignment == ALIGNMENTS ? before_guard(side, bytes)
				      : first(side) + MIDDLE + alignment,
	      bytes);
}

/* Addresses that the contract does not allow are passed over. */
static bool allowed(void)
{
	for (int side = 0; side < SIDES; side++)
		if ((uintptr_t)attempt.at[side] % job->align)
			return false;
	return true;
}

static void go(void)
{
	turn++;
	if (!allowed())
		return;
	attempt.sum = seeds[turn % (sizeof(seeds) / sizeof(*seeds))];
	attempt_run(&attempt);
}

/* Both sides at the starts of pages, which every alignment allows. */
static void pages(void)
{
	for (size_t a = 0; a < PAGES; a++)
		for (size_t b = 0; b < PAGES; b++) {
			place(SIDE_DST, first(SIDE_DST) + a * PAGE, attempt.bytes[SIDE_DST]);
			place(SIDE_SRC, first(SIDE_SRC) + b * PAGE, attempt.bytes[SIDE_SRC]);
			go();
		}
}

/* Attempt with this side as placed, and the other at the next alignment. */
static void go_beside(enum side side)
{
	align(!side, turn % (ALIGNMENTS + 1));
	go();
}

static void alignments(void)
{
	bool both = used(SIDE_DST) && used(SIDE_SRC);
	enum side one = used(SIDE_DST) ? SIDE_DST : SIDE_SRC;

	for (size_t a = 0; a < (both ? ALIGNMENTS : LINES); a++)
		for (size_t b = 0; b < (both ? ALIGNMENTS : 1); b++) {
			place(one, first(one) + MIDDLE + a, attempt.bytes[one]);
			align(!one, b);
			go();
		}
}

static void edges(enum side side)
{
	for (size_t i = 0; i < EDGES; i++) {
		place(side, edge(side, i), attempt.bytes[side]);
		go_beside(side);
	}
}

/* Flush with the guard before, and with the guard behind, so that no byte beyond can be read. */
static void flush(enum side side)
{
	for (size_t other = 0; other <= (used(!side) ? ALIGNMENTS : 0); other++) {
		align(!side, other);
		place(side, first(side), attempt.bytes[side]);
		go();
		place(side, before_guard(side, attempt.bytes[side]), attempt.bytes[side]);
		go();
	}
}

static void faults(enum side side, size_t stride)
{
	for (size_t limit = 0; limit < attempt.bytes[side]; limit += stride) {
		place(side, before_guard(side, limit), limit);
		go_beside(side);
	}
}

static void both_fault(void)
{
	for (size_t i = 0; i < BOTH_FAULT; i++) {
		for (int side = 0; side < SIDES; side++) {
			size_t limit = turn * (side ? 0x9e3779b1u : 0x85ebca6bu) >> 7;

			limit %= attempt.bytes[side];
			place(side, before_guard(side, limit), limit);
		}
		go();
	}
}

static void set_count(size_t count)
{
	bool records = job->effect == EFFECT_STORE_FIELDS;

	attempt.count = count;
	for (int side = 0; side < SIDES; side++)
		attempt.bytes[side] = records ? count * job->record[side] : used(side) ? count : 0;
}

static void large(size_t count)
{
	set_count(count);
	alignments();
	for (int side = 0; side < SIDES; side++) {
		if (!used(side))
			continue;
		flush(side);
		if (job->faulting[side])
			faults(side, STRIDE);
	}
}

static void every_placement(size_t count)
{
	bool faulting = false;

	set_count(count);
	alignments();
	if (job->align > 1)
		pages();
	for (int side = 0; side < SIDES; side++) {
		if (!used(side))
			continue;
		edges(side);
		flush(side);
		if (job->faulting[side])
			faults(side, 1);
	}
	faulting = job->faulting[SIDE_DST] && job->faulting[SIDE_SRC];
	if (faulting && attempt.bytes[SIDE_DST] && attempt.bytes[SIDE_SRC])
		both_fault();
}

static size_t most_records(void)
{
	size_t bytes = job->record[SIDE_DST], most;

	if (!job->in[ROLE_COUNT].bits)
		return 1;
	if (job->record[SIDE_SRC] > bytes)
		bytes = job->record[SIDE_SRC];
	most = bytes < MOST_RECORD_BYTES ? MOST_RECORD_BYTES / bytes : 1;
	if (most > MOST_RECORDS)
		most = MOST_RECORDS;
	return most < job->max_size ? most : job->max_size;
}

void cases_run(const struct job *of_job)
{
	bool records = of_job->effect == EFFECT_STORE_FIELDS;
	size_t least, most;

	job = of_job;
	most = records ? most_records() : job->max_size;
	least = job->in[ROLE_COUNT].bits ? 0 : 1;
	for (int fill = 0; fill < attempt_fills(job); fill++) {
		attempt_fill(fill);
		for (size_t count = least; count <= most; count++)
			every_placement(count);
		for (size_t i = 0; i < LARGE_SIZES && !records && !job->gated; i++)
			large(large_sizes[i]);
		attempt_check_all();
	}
}
