// SPDX-License-Identifier: GPL-2.0-or-later
#include "next_case.h"

#include "arena.h"

#define CARRYING 5	 /* one case of so many has a seed made for its sum */
#define MOST_SEEDED 4096 /* bytes */

static const uint64_t seeds[] = {0, 1, 0xffff, 0xfffffffe, 0xffffffff, 0x8000abcd};

struct next_case next_case;
static const struct job *job;

void next_case_open(const struct job *of_job)
{
	job = of_job;
	next_case = (struct next_case){0};
}

bool next_case_uses(enum side side)
{
	return job->in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits;
}

void next_case_count(size_t count)
{
	bool records = job->effect == EFFECT_STORE_FIELDS;

	next_case.attempt.count = count;
	for (int side = 0; side < SIDES; side++)
		next_case.attempt.bytes[side] = records		       ? count * job->record[side]
						: next_case_uses(side) ? count
								       : 0;
}

void next_case_put(enum side side, uint8_t *at, size_t limit)
{
	next_case.attempt.at[side] = next_case_uses(side) ? at : NULL;
	next_case.attempt.limit[side] = limit;
}

uint8_t *next_case_before_guard(enum side side, size_t limit)
{
	const struct arena *arena = attempt_side(side);

	return arena->start + arena->size - limit;
}

/*
 * A seed with which a sum, folded once to 32 bits, carries and ends in 16 ones: the carry comes in
 * below them, and goes through.
 */
static uint32_t seed_that_carries(const uint8_t *at, size_t size)
{
	uint64_t sum = 0;
	uint32_t folded;

	for (size_t i = 0; i < size; i++) {
		uint64_t more = (uint64_t)at[i] << i % 8 * 8;

		sum += more;
		sum += sum < more;
	}
	folded = (uint32_t)sum + (uint32_t)(sum >> 32);
	return 0xffff0000u | (uint16_t)(0xffff - folded);
}

bool next_case_run(void)
{
	next_case.turn++;
	for (int side = 0; side < SIDES; side++)
		if ((uintptr_t)next_case.attempt.at[side] % job->align)
			return false;
	next_case.attempt.sum = seeds[next_case.turn % (sizeof(seeds) / sizeof(*seeds))];
	if (job->effect == EFFECT_CHECKSUM && next_case.turn % CARRYING == 0 &&
	    next_case.attempt.bytes[SIDE_SRC] <= MOST_SEEDED && !next_case.attempt.known)
		next_case.attempt.sum = seed_that_carries(next_case.attempt.at[SIDE_SRC],
							  next_case.attempt.bytes[SIDE_SRC]);
	attempt_run(&next_case.attempt);
	return true;
}
