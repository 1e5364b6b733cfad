// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "large.h"

#include "buffers.h"
#include "common/checksum.h"
#include "endless.h"
#include "next_case.h"
#include "sparse.h"

#define PAGE 4096
#define LEAST_POWER 13
#define MOST_POWER 20 /* of bytes that are all there */
#define ROOM ((1 << MOST_POWER) + (1 << 16))

static const int around[] = {-65, -64, -9, -8, -7, -2, -1, 0, 1, 2, 7, 8, 9, 63, 64, 65};
static const int next_to[] = {-1, 0, 1, 8};
static const uint8_t alignments[][SIDES] = {{0, 0}, {1, 0}, {0, 1}, {5, 3}, {8, 60}};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static void whole(enum side side, size_t alignment)
{
	next_case_put(side, attempt_side(side)->start + PAGE + alignment,
		      next_case.attempt.bytes[side]);
}

/* Faults after these bytes: at the ends, in the middle, and at the limit of 16 bits. */
static void faults(enum side side)
{
	size_t bytes = next_case.attempt.bytes[side];
	const size_t behind[] = {0,	1,     63,	   64,	      100,	 bytes / 2, 65535,
				 65536, 65537, bytes - 65, bytes - 9, bytes - 8, bytes - 1};

	for (size_t i = 0; i < COUNT(behind); i++) {
		if (behind[i] >= bytes)
			continue;
		next_case_put(side, next_case_before_guard(side, behind[i]), behind[i]);
		whole(!side, next_case.turn % 64);
		next_case_run();
	}
}

static void one(const struct job *job, size_t count)
{
	next_case_count(count);
	for (int side = 0; side < SIDES; side++)
		if (next_case.attempt.bytes[side] > ROOM - 2 * PAGE)
			return;
	for (size_t i = 0; i < COUNT(alignments); i++) {
		for (int side = 0; side < SIDES; side++)
			whole(side, alignments[i][side]);
		next_case_run();
	}
	for (int side = 0; side < SIDES; side++)
		next_case_put(side, next_case_before_guard(side, next_case.attempt.bytes[side]),
			      next_case.attempt.bytes[side]);
	next_case_run();
	for (int side = 0; side < SIDES; side++)
		if (job->faulting[side])
			faults(side);
}

void large_run(const struct job *job, int fill)
{
	struct buffers buffers = buffers_open(ROOM, ARENA_GUARD);
	size_t record = job->record[SIDE_DST] ? job->record[SIDE_DST] : 1;

	buffers_fill(&buffers, job, fill);
	attempt_use(&buffers);
	for (int power = LEAST_POWER; power <= MOST_POWER; power++) {
		bool full = power == 16 || power == MOST_POWER;
		const int *list = full ? around : next_to;

		for (size_t i = 0; i < (full ? COUNT(around) : COUNT(next_to)); i++)
			one(job, (1ul << power) / record + list[i]);
	}
	buffers_check_all(&buffers);
	buffers_close(&buffers);
	if (fill == 0 && (job->faulting[SIDE_DST] || job->faulting[SIDE_SRC]))
		sparse_run(job);
	if (job->effect == EFFECT_CHECKSUM)
		endless_run(job, fill);
}
