// SPDX-License-Identifier: GPL-2.0-or-later
#include "effect.h"

#include "common/checksum.h"

#include <string.h>

#define MOST ((1 << 20) + (1 << 17)) /* bytes of a side that can be accessed */

static const uint8_t zeros[MOST];
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

struct image effect_image(const struct job *job, const struct attempt *attempt)
{
	if (job->effect == EFFECT_STORE_FIELDS)
		return records_image(job, attempt);
	if (job->effect == EFFECT_COPY)
		return (struct image){attempt->at[SIDE_SRC], NULL, attempt->limit[SIDE_SRC]};
	return (struct image){zeros, NULL, attempt->bytes[SIDE_DST]};
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
	return done;
}

uint32_t effect_sum(const uint8_t *bytes, size_t count, uint64_t seed)
{
	return checksum_fold(checksum_add(bytes, count) + seed);
}
