// SPDX-License-Identifier: GPL-2.0-or-later
#include "effect.h"

#include "common/checksum.h"
#include "mix.h"

#include <string.h>

#define MOST ((1 << 20) + (1 << 17)) /* bytes of a side that can be accessed */

static const uint8_t zeros[MOST];
static _Thread_local uint8_t values[MOST];
static _Thread_local uint8_t records[MOST];
static _Thread_local bool written[MOST];

static struct image records_image(const struct job *job, const struct attempt *a)
{
	size_t known =
	    a->bytes[SIDE_DST] < a->limit[SIDE_DST] ? a->bytes[SIDE_DST] : a->limit[SIDE_DST];

	memset(written, 0, known);
	for (size_t r = 0; r < a->count && r * job->record[SIDE_DST] < known; r++) {
		size_t dst = r * job->record[SIDE_DST], src = r * job->record[SIDE_SRC];

		for (size_t i = 0; i < job->nfields; i++) {
			const struct field *f = &job->fields[i];

			if (!f->zero && src + f->src + f->size > a->limit[SIDE_SRC])
				continue;
			memset(written + dst + f->dst, 1, f->size);
			if (f->zero)
				memset(records + dst + f->dst, 0, f->size);
			else
				memcpy(records + dst + f->dst, a->at[SIDE_SRC] + src + f->src,
				       f->size);
		}
	}
	return (struct image){records, written, known};
}

bool effect_has_dst(const struct job *job)
{
	return job->effect != EFFECT_CHECKSUM && job->effect != EFFECT_SCAN;
}

bool effect_is_counted(const struct job *job)
{
	return job->in[ROLE_COUNT].bits || job->effect == EFFECT_SCAN;
}

void effect_size(const struct job *job, struct attempt *a)
{
	static const enum role roles[] = {ROLE_DST, ROLE_SRC};
	bool terminated = job->effect == EFFECT_SCAN && !job->in[ROLE_COUNT].bits;

	for (int side = 0; side < SIDES; side++)
		a->bytes[side] = job->effect == EFFECT_STORE_FIELDS ? a->count * job->record[side]
				 : job->in[roles[side]].bits	    ? a->count + terminated
								    : 0;
}

/* Bytes that can be accessed on both sides. */
static size_t accessible(const struct attempt *a)
{
	size_t size = a->bytes[SIDE_DST];

	for (int side = 0; side < SIDES; side++)
		if (a->limit[side] < size)
			size = a->limit[side];
	return size;
}

static void arrange_search(const struct job *job, struct attempt *a, size_t before, size_t behind)
{
	size_t size = a->bytes[SIDE_SRC];
	uint8_t *at = a->at[SIDE_SRC];
	bool counted = job->in[ROLE_COUNT].bits;
	bool there = a->limit[SIDE_SRC] >= size;
	bool found = there && size && (!counted || a->twist % 3);

	a->match = found ? size - 1 : ATTEMPT_NOWHERE;
	a->count = counted ? size : a->count;
	if (counted && found && a->twist % 3 == 2)
		a->count = a->twist / 3 % 8 ? size + a->twist / 3 % 300 : SIZE_MAX;
	if (found)
		at[a->match] = a->value;
	if (behind && there)
		at[size + (found ? a->twist / 5 % behind : 0)] = a->value;
	if (before)
		at[-1 - (ptrdiff_t)(a->twist / 7 % before)] = a->value;
}

size_t effect_differ(uint64_t twist, size_t size)
{
	uint64_t n = twist / 4;

	if (!size || n % 5 == 0)
		return size;
	if (n % 5 == 1)
		return size - 1 - n / 5 % (size < 16 ? size : 16);
	return (n % 5 == 2 ? n / 5 : mix(n)) % size;
}

/*
 * After the first different byte, others differ with the other sign, except in calls with only one.
 */
static void arrange_comparison(struct attempt *a)
{
	uint8_t *dst = a->at[SIDE_DST];
	size_t size = accessible(a);
	uint8_t by = a->twist & 1 ? 1 : 0xff;

	memcpy(dst, a->at[SIDE_SRC], size);
	if (a->differ >= size)
		return;
	dst[a->differ] += a->twist & 2 ? 0x80 : by;
	for (size_t i = a->differ + 1; i < size && i < a->differ + 24 && a->twist % 3; i++)
		dst[i] += a->twist % 3 == 1 ? (uint8_t)-by : (uint8_t)mix(i + a->twist);
}

void effect_arrange(const struct job *job, struct attempt *a, size_t before, size_t behind)
{
	if (job->effect == EFFECT_SCAN)
		arrange_search(job, a, before, behind);
	if (job->effect == EFFECT_COMPARE)
		arrange_comparison(a);
}

int effect_order(const struct attempt *a)
{
	const uint8_t *dst = a->at[SIDE_DST], *src = a->at[SIDE_SRC];

	for (size_t i = 0; i < accessible(a); i++)
		if (dst[i] != src[i])
			return dst[i] < src[i] ? -1 : 1;
	return 0;
}

bool effect_faults(const struct job *job, const struct attempt *a)
{
	if (job->effect == EFFECT_COMPARE)
		return accessible(a) < a->bytes[SIDE_DST] && !effect_order(a);
	return job->effect == EFFECT_SCAN && a->limit[SIDE_SRC] < a->bytes[SIDE_SRC];
}

bool effect_is_backward(const struct job *job, const struct attempt *a)
{
	ptrdiff_t ahead = a->at[SIDE_DST] - a->at[SIDE_SRC];

	return job->effect == EFFECT_MOVE && a->overlapped && ahead > 0 && (size_t)ahead < a->count;
}

struct image effect_image(const struct job *job, const struct attempt *attempt)
{
	switch (job->effect) {
	case EFFECT_STORE_FIELDS:
		return records_image(job, attempt);
	case EFFECT_COPY:
	case EFFECT_MOVE:
		return (struct image){attempt->source, NULL, attempt->limit[SIDE_SRC]};
	case EFFECT_SET:
		memset(values, attempt->value,
		       attempt->limit[SIDE_DST] < MOST ? attempt->limit[SIDE_DST] : MOST);
		return (struct image){values, NULL, attempt->bytes[SIDE_DST]};
	default:
		return (struct image){zeros, NULL, attempt->bytes[SIDE_DST]};
	}
}

static bool record_possible(const struct job *job, const struct attempt *a, size_t r)
{
	for (size_t i = 0; i < job->nfields; i++) {
		const struct field *f = &job->fields[i];
		size_t dst = r * job->record[SIDE_DST] + f->dst + f->size;
		size_t src = r * job->record[SIDE_SRC] + f->src + f->size;

		if (dst > a->limit[SIDE_DST] || (!f->zero && src > a->limit[SIDE_SRC]))
			return false;
	}
	return true;
}

size_t effect_possible(const struct job *job, const struct attempt *attempt)
{
	size_t done = attempt->count;

	if (job->effect == EFFECT_STORE_FIELDS) {
		for (done = 0; done < attempt->count; done++)
			if (!record_possible(job, attempt, done))
				break;
		return done;
	}
	for (int side = 0; side < SIDES; side++)
		if (attempt->at[side] && attempt->limit[side] < done)
			done = attempt->limit[side];
	if (effect_is_backward(job, attempt))
		return done < attempt->count ? 0 : done - attempt->front[SIDE_SRC];
	return attempt->front[SIDE_DST] ? 0 : done;
}

uint32_t effect_sum(const uint8_t *bytes, size_t count, uint64_t seed)
{
	return checksum_fold(checksum_add(bytes, count) + seed);
}
