// SPDX-License-Identifier: GPL-2.0-or-later
#include "placing.h"

#include "arena.h"

#define CARRYING 5	 /* one case of so many has a seed made for its sum */
#define MOST_SEEDED 4096 /* bytes */

static const uint64_t seeds[] = {0, 1, 0xffff, 0xfffffffe, 0xffffffff, 0x8000abcd};

struct placing placing;
static const struct job *job;

void placing_open(const struct job *of_job)
{
	job = of_job;
	placing = (struct placing){0};
}

bool placing_uses(enum side side)
{
	return job->in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits;
}

void placing_count(size_t count)
{
	bool records = job->effect == EFFECT_STORE_FIELDS;

	placing.attempt.count = count;
	for (int side = 0; side < SIDES; side++)
		placing.attempt.bytes[side] = records		   ? count * job->record[side]
					      : placing_uses(side) ? count
								   : 0;
}

void placing_put(enum side side, uint8_t *at, size_t limit)
{
	placing.attempt.at[side] = placing_uses(side) ? at : NULL;
	placing.attempt.limit[side] = limit;
}

uint8_t *placing_before_guard(enum side side, size_t limit)
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

bool placing_go(void)
{
	placing.turn++;
	for (int side = 0; side < SIDES; side++)
		if ((uintptr_t)placing.attempt.at[side] % job->align)
			return false;
	placing.attempt.sum = seeds[placing.turn % (sizeof(seeds) / sizeof(*seeds))];
	if (job->effect == EFFECT_CHECKSUM && placing.turn % CARRYING == 0 &&
	    placing.attempt.bytes[SIDE_SRC] <= MOST_SEEDED && !placing.attempt.known)
		placing.attempt.sum = seed_that_carries(placing.attempt.at[SIDE_SRC],
							placing.attempt.bytes[SIDE_SRC]);
	attempt_run(&placing.attempt);
	return true;
}
