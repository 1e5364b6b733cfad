// SPDX-License-Identifier: GPL-2.0-or-later
#include "cases.h"

#include "arena.h"
#include "attempt.h"
#include "buffers.h"
#include "effect.h"
#include "large.h"
#include "next_case.h"
#include "strays.h"

#define ALIGNMENTS 16
#define LINES 64
#define MIDDLE (4096 + 1024) /* in the arena: far from page ends */
#define PAGE_END 8192
#define PAGE 4096
#define PAGES 3 /* whose starts are tried where addresses are to be aligned */
#define MOST_RECORDS 64
#define MOST_RECORD_BYTES 1024
#define SIDE_BYTES 16384
#define BOTH_FAULT 8  /* pairs of fault positions a size */
#define MOST_FRONT 64 /* bytes of a destination before the memory that can be accessed */
#define NAMED 65536   /* most bytes of a size that the code names */
#define NEAR 36	      /* distances below which, and next to a size, all are tried */
#define DISTANCES 13  /* between the others, of sizes above the following */
#define ALL_OVERLAPS 160
#define FEW 40	  /* bytes up to which what overlaps, or differs, meets a fault at every one */
#define STRIDE 61 /* bytes between the fault positions of large sizes */

/*
 * Offsets from a 64-byte line, and bytes before a page end, in addition to the alignments 0 to 15.
 */
static const uint8_t line_offsets[] = {16, 24, 31, 32, 33, 40, 47, 48, 55, 56, 57, 60, 61, 62, 63};
static const uint8_t page_distances[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64};

#define LINE_OFFSETS (sizeof(line_offsets))
#define LARGE_SIZES (sizeof(large_sizes) / sizeof(*large_sizes))
#define EDGES (LINE_OFFSETS + sizeof(page_distances))

/* Beyond the sizes that are tried in full: paths that only larger sizes take. */
static const size_t large_sizes[] = {777, 1024, 2049, 4096};

static const struct job *job;

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

/* Place a whole buffer at an alignment; ALIGNMENTS itself means flush with the guard after it. */
static void align(enum side side, size_t alignment)
{
	size_t bytes = next_case.attempt.bytes[side];

	next_case_put(side,
		      alignment == ALIGNMENTS ? next_case_before_guard(side, bytes)
					      : first(side) + MIDDLE + alignment,
		      bytes);
}

/* Both sides at the starts of pages, which every alignment allows. */
static void pages(void)
{
	for (size_t a = 0; a < PAGES; a++)
		for (size_t b = 0; b < PAGES; b++) {
			next_case_put(SIDE_DST, first(SIDE_DST) + a * PAGE,
				      next_case.attempt.bytes[SIDE_DST]);
			next_case_put(SIDE_SRC, first(SIDE_SRC) + b * PAGE,
				      next_case.attempt.bytes[SIDE_SRC]);
			next_case_run();
		}
}

/* Attempt with this side as placed, and the other at the next alignment. */
static void go_beside(enum side side)
{
	align(!side, next_case.turn % (ALIGNMENTS + 1));
	next_case_run();
}

static void alignments(void)
{
	bool both = next_case_uses(SIDE_DST) && next_case_uses(SIDE_SRC);
	enum side one = next_case_uses(SIDE_DST) ? SIDE_DST : SIDE_SRC;

	for (size_t a = 0; a < (both ? ALIGNMENTS : LINES); a++)
		for (size_t b = 0; b < (both ? ALIGNMENTS : 1); b++) {
			next_case_put(one, first(one) + MIDDLE + a, next_case.attempt.bytes[one]);
			align(!one, b);
			next_case_run();
		}
}

static void edges(enum side side)
{
	for (size_t i = 0; i < EDGES; i++) {
		next_case_put(side, edge(side, i), next_case.attempt.bytes[side]);
		go_beside(side);
	}
}

/* Flush with the guard before, and with the guard after, so that no byte beyond can be read. */
static void flush(enum side side)
{
	size_t last = next_case_uses(!side) ? ALIGNMENTS : job->effect == EFFECT_SCAN ? 2 : 0;

	for (size_t other = 0; other <= last; other++) {
		align(!side, other);
		next_case_put(side, first(side), next_case.attempt.bytes[side]);
		next_case_run();
		next_case_put(side, next_case_before_guard(side, next_case.attempt.bytes[side]),
			      next_case.attempt.bytes[side]);
		next_case_run();
	}
}

static void faults(enum side side, size_t stride)
{
	for (size_t limit = 0; limit < next_case.attempt.bytes[side]; limit += stride) {
		next_case_put(side, next_case_before_guard(side, limit), limit);
		go_beside(side);
	}
}

/* A destination whose first bytes cannot be accessed, and the others can. */
static void behind_guard(void)
{
	for (size_t front = 1; front < next_case.attempt.bytes[SIDE_DST] && front <= MOST_FRONT;
	     front++) {
		next_case_put(SIDE_DST, first(SIDE_DST) - front, 0);
		go_beside(SIDE_DST);
	}
}

/* Both sides flush with a guard, with the first difference at each byte. */
static void differences(void)
{
	size_t size = next_case.attempt.bytes[SIDE_DST];

	for (size_t at = 0; at < size; at++)
		for (int side = 0; side < SIDES; side++) {
			next_case.differ = at;
			next_case_put(side, next_case_before_guard(side, size), size);
			go_beside(side);
		}
	next_case.differ = ATTEMPT_NOWHERE;
}

/* Both sides in the same memory, flush with a guard by turns, at a distance. */
static void overlap(ptrdiff_t distance)
{
	size_t size = next_case.attempt.bytes[SIDE_DST];
	size_t behind = distance > 0 ? distance : 0, before = behind - distance;
	uint8_t *lowest = first(SIDE_DST) + MIDDLE / 2 + next_case.turn % 64;

	if (next_case.turn % 4 == 1)
		lowest = first(SIDE_DST);
	if (next_case.turn % 4 == 2)
		lowest = next_case_before_guard(SIDE_DST, size + before + behind);
	next_case_put(SIDE_DST, lowest + before, size);
	next_case_overlap(distance);
	next_case_run();
}

static void overlaps(size_t stride)
{
	ptrdiff_t most = next_case.attempt.bytes[SIDE_DST] + 1;

	for (ptrdiff_t distance = -most; distance <= most; distance++)
		if (distance % stride == 0 || (distance > -NEAR && distance < NEAR) ||
		    most - distance < NEAR || most + distance < NEAR)
			overlap(distance);
	next_case.attempt.overlapped = false;
}

/* Both sides in the same memory, which ends, or begins, within one of them or both. */
static void overlapped_fault(ptrdiff_t distance, size_t cut, bool front)
{
	struct attempt *a = &next_case.attempt;
	size_t size = a->bytes[SIDE_DST], behind = distance > 0 ? distance : 0;
	size_t before = behind - distance, all = size + before + behind;
	uint8_t *lowest =
	    front ? first(SIDE_DST) - cut : next_case_before_guard(SIDE_DST, all) + cut;

	next_case_put(SIDE_DST, lowest + before, size);
	next_case_overlap(distance);
	for (int side = 0; side < SIDES; side++) {
		size_t ahead = side == SIDE_DST ? before : behind, rest = all - size - ahead;

		if (front)
			a->front[side] = cut > ahead ? cut - ahead : 0;
		else
			a->limit[side] = cut > rest ? size - (cut - rest) : size;
	}
	next_case_run();
	a->front[SIDE_DST] = a->front[SIDE_SRC] = 0;
}

static void overlapped_faults(void)
{
	ptrdiff_t most = next_case.attempt.bytes[SIDE_DST] - 1;

	for (ptrdiff_t distance = -most; distance <= most; distance++) {
		size_t stride = most > FEW ? 1 + next_case.turn % 13 : 1;

		for (ptrdiff_t cut = 1; distance && cut <= most; cut += stride)
			for (int front = 0; front < 2; front++)
				overlapped_fault(distance, cut, front);
		if (most > FEW)
			distance += next_case.turn % 11;
	}
	next_case.attempt.overlapped = false;
}

/* The last accessible byte of one side differs, or the byte after it would. */
static void differences_at_faults(enum side side)
{
	size_t size = next_case.attempt.bytes[side];

	for (size_t limit = 1; limit<size; limit += size> FEW ? 1 + next_case.turn % 13 : 1)
		for (next_case.differ = limit - 1; next_case.differ <= limit; next_case.differ++) {
			next_case_put(side, next_case_before_guard(side, limit), limit);
			go_beside(side);
		}
	next_case.differ = ATTEMPT_NOWHERE;
}

static void both_fault(void)
{
	for (size_t i = 0; i < BOTH_FAULT; i++) {
		for (int side = 0; side < SIDES; side++) {
			size_t limit = next_case.turn * (side ? 0x9e3779b1u : 0x85ebca6bu) >> 7;

			limit %= next_case.attempt.bytes[side];
			next_case_put(side, next_case_before_guard(side, limit), limit);
		}
		next_case_run();
	}
}

static void large(size_t count)
{
	next_case_count(count);
	alignments();
	for (int side = 0; side < SIDES; side++) {
		if (!next_case_uses(side))
			continue;
		flush(side);
		if (job->faulting[side])
			faults(side, STRIDE);
	}
	if (job->effect == EFFECT_MOVE)
		overlaps(STRIDE);
}

static void every_placement(size_t count)
{
	bool faulting = false;

	next_case_count(count);
	alignments();
	if (job->align > 1)
		pages();
	for (int side = 0; side < SIDES; side++) {
		if (!next_case_uses(side))
			continue;
		edges(side);
		flush(side);
		if (job->faulting[side])
			faults(side, 1);
		if (job->faulting[side] && job->effect == EFFECT_COMPARE)
			differences_at_faults(side);
	}
	if (job->faulting[SIDE_DST])
		behind_guard();
	if (job->effect == EFFECT_COMPARE)
		differences();
	if (job->effect == EFFECT_MOVE)
		overlaps(count <= ALL_OVERLAPS ? 1 : DISTANCES);
	if (job->effect == EFFECT_MOVE && job->faulting[SIDE_DST] && job->faulting[SIDE_SRC] &&
	    count > 1 && count <= ALL_OVERLAPS)
		overlapped_faults();
	faulting = job->faulting[SIDE_DST] && job->faulting[SIDE_SRC];
	if (faulting && next_case.attempt.bytes[SIDE_DST] && next_case.attempt.bytes[SIDE_SRC])
		both_fault();
}

static size_t most_records(void)
{
	size_t bytes = job->record[SIDE_DST], most;

	if (!effect_is_counted(job))
		return 1;
	if (job->record[SIDE_SRC] > bytes)
		bytes = job->record[SIDE_SRC];
	most = bytes < MOST_RECORD_BYTES ? MOST_RECORD_BYTES / bytes : 1;
	if (most > MOST_RECORDS)
		most = MOST_RECORDS;
	return most < job->max_size ? most : job->max_size;
}

/* The results of calls of every size are checked in memory that fits in L1. */
static void small(int fill)
{
	struct buffers buffers = buffers_open(SIDE_BYTES, ARENA_GUARD);
	bool records = job->effect == EFFECT_STORE_FIELDS;
	size_t most = records ? most_records() : job->max_size;

	buffers_fill(&buffers, job, fill);
	attempt_use(&buffers);
	for (size_t count = effect_is_counted(job) ? 0 : 1; count <= most; count++)
		every_placement(count);
	for (size_t i = 0; i < LARGE_SIZES && !records && !job->gated; i++)
		large(large_sizes[i]);
	buffers_check_all(&buffers);
	buffers_close(&buffers);
}

/* Contents that code may treat specially, and carries, are tried at a few alignments only. */
static void other_values(int fill)
{
	struct buffers buffers = buffers_open(SIDE_BYTES, ARENA_GUARD);
	size_t most = job->effect == EFFECT_STORE_FIELDS ? most_records() : job->max_size;

	buffers_fill(&buffers, job, fill);
	attempt_use(&buffers);
	for (size_t count = effect_is_counted(job) ? 0 : 1; count <= most; count++) {
		next_case_count(count);
		for (size_t i = 0; i < ALIGNMENTS; i += 1 + count % 3) {
			for (int side = 0; side < SIDES; side++)
				align(side, i);
			next_case_run();
		}
	}
	buffers_close(&buffers);
}

/*
 * The sizes and alignments that the code names, all combinations, with one of the three off by one.
 */
static void named(void)
{
	static const int beside[][SIDES + 1] = {{0, 0, 0},  {1, 0, 0}, {-1, 0, 0}, {0, 1, 0},
						{0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
	size_t n = job->nvalues, most = job->effect == EFFECT_STORE_FIELDS ? most_records() : NAMED;
	struct buffers buffers = buffers_open(NAMED + 4 * PAGE, ARENA_GUARD);

	buffers_fill(&buffers, job, 0);
	attempt_use(&buffers);
	for (size_t i = 0; i < n * n * n; i++)
		for (size_t b = 0; b < sizeof(beside) / sizeof(*beside); b++) {
			size_t count = job->values[i % n] + beside[b][SIDES];

			if (count > most)
				continue;
			next_case_count(effect_is_counted(job) ? count : 1);
			for (int side = 0; side < SIDES; side++) {
				size_t at =
				    job->values[i / (side ? n * n : n) % n] + beside[b][side];

				next_case_put(side, first(side) + PAGE + at % PAGE,
					      next_case.attempt.bytes[side]);
			}
			next_case_run();
			if (job->effect == EFFECT_MOVE &&
			    next_case.attempt.bytes[SIDE_DST] <= PAGE) {
				overlap(1 + next_case.turn % 40);
				overlap(-1 - (ptrdiff_t)(next_case.turn % 40));
				next_case.attempt.overlapped = false;
			}
		}
	buffers_check_all(&buffers);
	buffers_close(&buffers);
}

void cases_run(const struct job *of_job)
{
	job = of_job;
	next_case_open(job);
	for (int fill = 0; fill < buffers_patterns(job); fill++) {
		bool sum = job->effect == EFFECT_CHECKSUM;

		if (fill < (sum ? BUFFERS_FULL_FILLS : 1))
			small(fill);
		else
			other_values(fill);
		if (!job->gated && effect_is_counted(job) && (sum || !fill))
			large_run(job, fill);
	}
	if (!job->gated)
		named();
	if (!job->gated && job->guards)
		strays_run(job);
}
