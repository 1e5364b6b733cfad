// SPDX-License-Identifier: GPL-2.0-or-later
#include "buffers.h"

#include "effect.h"
#include "mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ZONE 128 /* bytes looked at on each side of the destination after each attempt */

static uint8_t *room(size_t size)
{
	uint8_t *memory = malloc(size);

	if (memory)
		return memory;
	perror("malloc");
	exit(2);
}

struct buffers buffers_open(size_t size, size_t behind)
{
	struct buffers buffers;

	for (int s = 0; s < SIDES; s++) {
		buffers.side[s] = arena_open_round(size, behind);
		buffers.held[s] = room(buffers.side[s].size);
	}
	return buffers;
}

void buffers_close(struct buffers *buffers)
{
	for (int s = 0; s < SIDES; s++) {
		arena_close(&buffers->side[s]);
		free(buffers->held[s]);
	}
}

/* The patterns for sums: any bytes, only ones, only zeros, and words that produce carries. */
static uint8_t sum_byte(int fill, size_t at)
{
	switch (fill) {
	case 0:
		return mix(at);
	case 1:
		return 0xff;
	case 2:
		return 0;
	case 3: /* words of 0x7fff */
		return at % 2 ? 0x7f : 0xff;
	case 4: /* words of 0x8000 */
		return at % 2 ? 0x80 : 0;
	case 5: /* a word of 1 before seven of 64 ones: a carry through all of them */
		return at / 8 % 8 ? 0xff : at % 8 == 0;
	case 6: /* words of 64 ones and of zeros by turns */
		return at / 8 % 2 ? 0xff : 0;
	default: /* the highest bit of each word of 64 */
		return at % 8 == 7 ? 0x80 : 0;
	}
}

/* The value to search for in memory of a pattern. */
static uint8_t value_of(const struct job *job, int fill)
{
	static const uint8_t values[] = {0x41, 0, 0xff, 0x80, 1, 0x7f};

	return job->in[ROLE_VALUE].bits ? values[fill] : 0;
}

/* Bytes other than the value: any bytes, and those that carry tricks mistake for it. */
static uint8_t searched_byte(const struct job *job, int fill, size_t at)
{
	static const uint8_t tricky[] = {1, 0x80, 0x81, 0xff, 0x7f, 2, 0xfe, 1};
	uint8_t random = mix(at);

	switch (fill) {
	case 0:
	case 4:
		random = random && mix(at / 16) % 2 ? random : tricky[mix(at ^ 77) % 8];
		break;
	case 5:
		random = tricky[at % 2];
		break;
	default:
		random = tricky[(fill - 1) * 3 % 8];
	}
	return value_of(job, fill) ^ random;
}

int buffers_patterns(const struct job *job)
{
	return job->effect == EFFECT_CHECKSUM ? 8 : 6;
}

/* The bytes to move: any low bytes, and those that code may treat as a special case. */
static uint8_t moved_byte(int fill, size_t at)
{
	static const char text[] = "A user wrote this, and GET / HTTP/1.1 follows.\r\n";
	uint8_t random = mix(at);

	switch (fill) {
	case 0:
		return (random >> 1) + (random < 2);
	case 1:
		return 0;
	case 2:
		return 0xff;
	case 3: /* one bit of each word of 64 */
		return at % 8 == at / 8 % 8 ? 1 << at / 64 % 8 : 0;
	case 4:
		return text[at % (sizeof(text) - 1)];
	default:
		return random;
	}
}

/* The initial bytes of a destination: none that a correct call may leave there, where possible. */
static uint8_t left_byte(const struct job *job, int fill, size_t at)
{
	bool clears = job->effect == EFFECT_CLEAR;

	switch (fill) {
	case 1:
		return 0xff;
	case 2:
		return clears ? 1 << at % 8 : 0;
	case 3:
		return clears ? 0x20 : 0xff;
	default:
		return mix(at) | 0x80;
	}
}

uint8_t buffers_byte(const struct job *job, enum side side, int fill, size_t at)
{
	if (job->effect == EFFECT_SCAN)
		return searched_byte(job, fill, at);
	if (side == SIDE_DST)
		return left_byte(job, job->effect == EFFECT_CHECKSUM ? 0 : fill, at);
	return job->effect == EFFECT_CHECKSUM ? sum_byte(fill, at) : moved_byte(fill, at);
}

void buffers_fill(struct buffers *buffers, const struct job *job, int fill)
{
	for (int s = 0; s < SIDES; s++) {
		for (size_t i = 0; i < buffers->side[s].size; i++)
			buffers->held[s][i] = buffers_byte(job, s, fill, i);
		memcpy(buffers->side[s].start, buffers->held[s], buffers->side[s].size);
	}
	buffers->value = value_of(job, fill);
	/* A store to the source faults, also one of the same bytes. */
	if (job->effect != EFFECT_SCAN &&
	    mprotect(buffers->side[SIDE_SRC].start, buffers->side[SIDE_SRC].size, PROT_READ)) {
		perror("mprotect");
		exit(2);
	}
}

static void check_outside(const struct buffers *g, const uint8_t *from, const uint8_t *to,
			  ptrdiff_t ahead)
{
	const uint8_t *old = g->held[SIDE_DST] + (from - g->side[SIDE_DST].start);

	if (!memcmp(from, old, to - from))
		return;
	for (ptrdiff_t i = 0; i < to - from; i++)
		if (from[i] != old[i])
			verdict_fail("dst byte %td is written, outside the destination", ahead + i);
}

/* The checked bytes around a destination: they include a source that overlaps it. */
static size_t zone_of(const struct attempt *a)
{
	return ZONE + (a->overlapped ? a->bytes[SIDE_DST] : 0);
}

void buffers_check_around(const struct buffers *g, const struct attempt *a)
{
	const struct arena *arena = &g->side[SIDE_DST];
	uint8_t *at = a->at[SIDE_DST], *end = at + a->bytes[SIDE_DST];
	uint8_t *last = arena->start + arena->size;
	uint8_t *low = at - arena->start > ZONE ? at - ZONE : arena->start;

	check_outside(g, low, last - end > ZONE ? end + ZONE : last, low - at);
}

void buffers_check(const struct buffers *g, const struct job *job, const struct attempt *a,
		   size_t done)
{
	const struct arena *arena = &g->side[SIDE_DST];
	uint8_t *at = a->at[SIDE_DST], *end = at + a->bytes[SIDE_DST];
	uint8_t *old = g->held[SIDE_DST] + (at - arena->start);
	ptrdiff_t zone = zone_of(a);
	uint8_t *low = at - arena->start > zone ? at - zone : arena->start;
	uint8_t *limit = at + a->limit[SIDE_DST];
	uint8_t *last = arena->start + arena->size;
	uint8_t *high = last - end > zone ? end + zone : last;
	struct image image = effect_image(job, a);

	check_outside(g, low, at, low - at);
	if (end < high)
		check_outside(g, end, high, end - at);
	if (!image.covered && memcmp(at, image.bytes, done)) {
		size_t i = 0;

		while (at[i] == image.bytes[i])
			i++;
		verdict_fail("dst byte %zu is %#x, not %#x", i, at[i], image.bytes[i]);
	}
	for (size_t i = image.covered ? 0 : done; at + i < limit; i++) {
		bool covered = i < image.known && (!image.covered || image.covered[i]);

		if (covered && at[i] == image.bytes[i])
			continue;
		if (covered && i < done)
			verdict_fail("dst byte %zu is %#x, not %#x", i, at[i], image.bytes[i]);
		if (at[i] != old[i])
			verdict_fail("dst byte %zu is %#x: %s", i, at[i],
				     covered	     ? "neither old nor new"
				     : image.covered ? "it is in no field that can be stored"
						     : "the source there cannot be read");
	}
	memcpy(low, g->held[SIDE_DST] + (low - arena->start), (limit < end ? limit : high) - low);
}

void buffers_check_back(const struct buffers *g, const struct job *job, const struct attempt *a,
			size_t done)
{
	const struct arena *arena = &g->side[SIDE_DST];
	uint8_t *at = a->at[SIDE_DST], *end = at + a->bytes[SIDE_DST];
	uint8_t *last = arena->start + arena->size;
	ptrdiff_t zone = zone_of(a);
	uint8_t *low = at - arena->start > zone ? at - zone : arena->start;
	uint8_t *high = last - end > zone ? end + zone : last;
	struct image image = effect_image(job, a);

	if (low < at)
		check_outside(g, low, at, low - at);
	if (end < high)
		check_outside(g, end, high, end - at);
	for (uint8_t *byte = low < at ? at : low; byte < end && byte < last; byte++) {
		size_t i = byte - at;
		bool known = i >= a->front[SIDE_SRC] && i < image.known;

		if (known && *byte == image.bytes[i])
			continue;
		if (a->bytes[SIDE_DST] - i <= done)
			verdict_fail("dst byte %zu is %#x, not %#x", i, *byte, image.bytes[i]);
		if (*byte != g->held[SIDE_DST][byte - arena->start])
			verdict_fail("dst byte %zu is %#x: %s", i, *byte,
				     known ? "neither old nor new"
					   : "the source there cannot be read");
	}
	memcpy(low, g->held[SIDE_DST] + (low - arena->start), high - low);
}

void buffers_check_front(const struct buffers *g, const struct job *job, const struct attempt *a)
{
	const struct arena *arena = &g->side[SIDE_DST];
	uint8_t *at = a->at[SIDE_DST], *end = at + a->bytes[SIDE_DST], *high = end + ZONE;
	struct image image = effect_image(job, a);

	check_outside(g, end, high, end - at);
	for (uint8_t *byte = arena->start; byte < end; byte++) {
		size_t i = byte - at;
		bool covered = i < image.known && (!image.covered || image.covered[i]);

		if (*byte != g->held[SIDE_DST][byte - arena->start] &&
		    !(covered && *byte == image.bytes[i]))
			verdict_fail("dst byte %zu is %#x: neither old nor new", i, *byte);
	}
	memcpy(arena->start, g->held[SIDE_DST], high - arena->start);
}

void buffers_check_all(const struct buffers *buffers)
{
	for (int s = 0; s < SIDES; s++)
		if (memcmp(buffers->side[s].start, buffers->held[s], buffers->side[s].size))
			verdict_fail("%s is written, in this case or one of those before",
				     s == SIDE_SRC ? "the source"
						   : "memory far from the destination");
}
