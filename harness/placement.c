// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "placement.h"

#include "arena.h"
#include "effect.h"
#include "machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define MOST_CALLS 1024	      /* of a cold burst */
#define MOST_BYTES (64 << 20) /* of a side's buffers */

#define SEARCHED 0x5a /* a value that is looked for, and found at the end */
#define HELD 0xaa     /* by sources */

static void set_sizes(struct placement *p, const struct job *job, size_t count)
{
	struct attempt attempt = {.count = count};

	effect_size(job, &attempt);
	memcpy(p->bytes, attempt.bytes, sizeof(p->bytes));
}

/* A buffer for each call, at the same offset in a page: they are whole pages apart. */
static uint8_t *open_side(const struct job *job, const struct placement *p, enum side side,
			  size_t at, uint64_t calls)
{
	bool compared = job->effect == EFFECT_COMPARE;
	size_t stride = (p->bytes[side] + 2 * PAGE) / PAGE * PAGE;
	struct arena arena = arena_open(calls * stride + PAGE);

	/*
	 * Huge pages, so that translations stay in the TLB; it does not matter if there are none.
	 */
	if (p->tables[side])
		madvise(arena.start, arena.size, MADV_HUGEPAGE);
	memset(arena.start, side == SIDE_DST && !compared ? 0x55 : HELD, arena.size);
	for (uint64_t i = 0; job->effect == EFFECT_SCAN && p->bytes[side] && i < calls; i++)
		arena.start[i * stride + at + p->bytes[side] - 1] = p->values[ROLE_VALUE];
	for (uint64_t i = 0; p->tables[side] && i < calls; i++)
		p->tables[side][i + 1] = (uintptr_t)arena.start + i * stride + at;
	return arena.start + at;
}

/* Prefetchers must not guess the next call's buffers. The order is the same every time. */
static void shuffle(struct placement *p)
{
	uint64_t random = 1;

	for (uint64_t i = p->most; i > 1; i--) {
		uint64_t j;

		random = random * 6364136223846793005 + 1442695040888963407;
		j = 1 + (random >> 33) % i;
		for (int side = 0; side < SIDES; side++) {
			uint64_t *table = p->tables[side], other = table[i];

			table[i] = table[j];
			table[j] = other;
		}
	}
}

struct placement placement_open(const struct job *job, const struct point *point)
{
	size_t at[SIDES] = {point->dst_align % PAGE, (point->dst_align - point->skew) % PAGE};
	struct placement p = {.values[ROLE_COUNT] = point->count};
	size_t longest;

	if (job->effect == EFFECT_SCAN && job->in[ROLE_VALUE].bits)
		p.values[ROLE_VALUE] = SEARCHED;
	set_sizes(&p, job, point->count);
	longest = p.bytes[SIDE_DST] > p.bytes[SIDE_SRC] ? p.bytes[SIDE_DST] : p.bytes[SIDE_SRC];
	if (point->cold) {
		p.most = MOST_BYTES / (longest + 2 * PAGE);
		p.most = p.most > MOST_CALLS ? MOST_CALLS : p.most ? p.most : 1;
		for (int side = 0; side < SIDES; side++)
			p.tables[side] = malloc((p.most + 1) * sizeof(*p.tables[side]));
	}
	for (int side = 0; side < SIDES; side++) {
		uint8_t *first = open_side(job, &p, side, at[side], p.most ? p.most : 1);

		p.values[side == SIDE_DST ? ROLE_DST : ROLE_SRC] =
		    (uintptr_t)(p.tables[side] ? (void *)p.tables[side] : first);
	}
	if (p.most)
		shuffle(&p);
	return p;
}

void placement_flush(const void *placement, uint64_t calls)
{
	const struct placement *p = placement;

	for (int side = 0; side < SIDES; side++)
		for (uint64_t i = 1; i <= calls; i++)
			machine_flush(p->tables[side][i], p->bytes[side]);
	machine_flushed();
}
