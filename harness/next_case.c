// SPDX-License-Identifier: GPL-2.0-or-later
#include "next_case.h"

#include "arena.h"
#include "effect.h"
#include "mix.h"

#define CARRYING 5	 /* one case of so many has a seed made for its sum */
#define MOST_SEEDED 4096 /* bytes */

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static const uint8_t values[] = {0x5a, 0, 0xff, 0x80, 1, 0x7f, 0xa5}; /* that are stored */
static const uint64_t seeds[] = {0, 1, 0xffff, 0xfffffffe, 0xffffffff, 0x8000abcd};

struct next_case next_case;
static const struct job *job;

void next_case_open(const struct job *of_job)
{
	job = of_job;
	next_case = (struct next_case){.differ = ATTEMPT_NOWHERE};
}

bool next_case_uses(enum side side)
{
	return job->in[side == SIDE_DST ? ROLE_DST : ROLE_SRC].bits;
}

void next_case_count(size_t count)
{
	next_case.attempt.count = count;
	next_case.attempt.overlapped = false;
	effect_size(job, &next_case.attempt);
}

void next_case_put(enum side side, uint8_t *at, size_t limit)
{
	next_case.attempt.at[side] = next_case_uses(side) ? at : NULL;
	next_case.attempt.limit[side] = limit;
}

void next_case_overlap(ptrdiff_t distance)
{
	next_case_put(SIDE_SRC, next_case.attempt.at[SIDE_DST] + distance,
		      next_case.attempt.bytes[SIDE_SRC]);
	next_case.attempt.overlapped = true;
}

uint8_t *next_case_before_guard(enum side side, size_t limit)
{
	const struct arena *arena = attempt_side(side);

	return arena->start + arena->size - limit;
}

/*
 * A seed with which a sum, folded once to 32 bits, carries and ends in 16 ones, through which the
 * carry propagates.
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
	next_case.attempt.value =
	    job->effect == EFFECT_SCAN ? attempt_value() : values[next_case.turn % COUNT(values)];
	next_case.attempt.twist = job->effect == EFFECT_SCAN ? next_case.turn : mix(next_case.turn);
	next_case.attempt.differ = next_case.differ;
	if (next_case.differ == ATTEMPT_NOWHERE)
		next_case.attempt.differ =
		    effect_differ(mix(next_case.turn), next_case.attempt.bytes[0]);
	attempt_run(&next_case.attempt);
	return true;
}
