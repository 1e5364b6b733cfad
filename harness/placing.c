// SPDX-License-Identifier: GPL-2.0-or-later
#include "placing.h"

#include "arena.h"

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

bool placing_go(void)
{
	placing.turn++;
	for (int side = 0; side < SIDES; side++)
		if ((uintptr_t)placing.attempt.at[side] % job->align)
			return false;
	placing.attempt.sum = seeds[placing.turn % (sizeof(seeds) / sizeof(*seeds))];
	attempt_run(&placing.attempt);
	return true;
}
