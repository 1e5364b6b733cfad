// SPDX-License-Identifier: GPL-2.0-or-later
#include "sparse.h"

#include "buffers.h"
#include "next_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAD 65536	  /* bytes at the start that can be accessed */
#define WINDOW (2 * HEAD) /* around each power of two */
#define LEAST_POWER 17
#define MOST_POWER 33
#define BEHIND ((1ul << MOST_POWER) + WINDOW)

static const size_t limits[] = {0, 1, 7, 8, 9, 63, 64, 65, 100, 255, 4096, 40000};
static const int around[] = {-64, -8, -1, 0, 1, 3, 5, 8, 20, 63, 64, 65, 127, 200};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static const struct job *job;
static struct buffers buffers;

/* The accessible bytes at the end of either side, and their initial content. */
static uint8_t *window[SIDES], *held[SIDES];

static void open_window(int power)
{
	for (int s = 0; s < SIDES; s++) {
		window[s] = buffers.side[s].start + (1ul << power);
		if (mprotect(window[s], WINDOW, PROT_READ | PROT_WRITE)) {
			perror("mprotect");
			exit(2);
		}
		for (size_t i = 0; i < WINDOW; i++)
			held[s][i] = buffers_byte(job, s, 0, i * 31 + power);
		memcpy(window[s], held[s], WINDOW);
	}
}

static void close_window(void)
{
	for (int s = 0; s < SIDES; s++) {
		madvise(window[s], WINDOW, MADV_DONTNEED);
		mprotect(window[s], WINDOW, PROT_NONE);
	}
}

/* True if a byte at the destination is the one that a complete call leaves there. */
static bool is_new(const struct attempt *a, const uint8_t *at)
{
	const uint8_t *from = a->at[SIDE_SRC] + (at - a->at[SIDE_DST]);

	if (job->effect == EFFECT_CLEAR)
		return !*at;
	if (job->effect == EFFECT_SET)
		return *at == a->value;
	return (job->effect == EFFECT_COPY || job->effect == EFFECT_MOVE) &&
	       from >= window[SIDE_SRC] && from < window[SIDE_SRC] + WINDOW && *from == *at;
}

static void check_window(const struct attempt *a)
{
	if (memcmp(window[SIDE_SRC], held[SIDE_SRC], WINDOW))
		verdict_fail("the end of the source is written");
	if (!memcmp(window[SIDE_DST], held[SIDE_DST], WINDOW))
		return;
	for (size_t i = 0; i < WINDOW; i++) {
		const uint8_t *at = window[SIDE_DST] + i;
		bool inside = at >= a->at[SIDE_DST] && at < a->at[SIDE_DST] + a->bytes[SIDE_DST];

		if (*at != held[SIDE_DST][i] && !(inside && is_new(a, at)))
			verdict_fail("dst byte %td is %#x, behind bytes that cannot be accessed",
				     at - a->at[SIDE_DST], *at);
	}
	memcpy(window[SIDE_DST], held[SIDE_DST], WINDOW);
}

/* A call of which one side ends after limit bytes, at first; the other has all of its head. */
static void one(enum side side, size_t count, size_t limit)
{
	next_case_count(count);
	next_case_put(side, next_case_before_guard(side, limit), limit);
	next_case_put(!side, attempt_side(!side)->start, HEAD);
	if (next_case_run())
		check_window(&next_case.attempt);
}

void sparse_run(const struct job *of_job)
{
	job = of_job;
	buffers = buffers_open(HEAD, BEHIND);
	buffers_fill(&buffers, job, 0);
	attempt_use(&buffers);
	for (int s = 0; s < SIDES; s++)
		held[s] = malloc(WINDOW);
	for (int power = LEAST_POWER; power <= MOST_POWER; power++) {
		open_window(power);
		for (size_t c = 0; c < COUNT(around); c++)
			for (size_t l = 0; l < COUNT(limits); l++)
				for (int side = 0; side < SIDES; side++)
					if (job->faulting[side] &&
					    (job->in[ROLE_COUNT].bits == 64 || power < 32))
						one(side, (1ul << power) + around[c], limits[l]);
		close_window();
	}
	buffers_check_all(&buffers);
	buffers_close(&buffers);
	for (int s = 0; s < SIDES; s++)
		free(held[s]);
}
