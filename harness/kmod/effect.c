// SPDX-License-Identifier: GPL-2.0-or-later
#include "effect.h"

#include "common/checksum.h"

#include <linux/minmax.h>
#include <linux/string.h>

void effect_size(struct attempt *a)
{
	const struct variant *v = a->variant;
	bool records = v->effect == EFFECT_STORE_FIELDS;

	for (int side = 0; side < SIDES; side++)
		a->bytes[side] = a->count * (records ? v->record[side] : 1);
	if (v->effect == EFFECT_CLEAR)
		a->bytes[SIDE_SRC] = 0;
	if (v->effect == EFFECT_CHECKSUM)
		a->bytes[SIDE_DST] = 0;
}

static void record_image(const struct variant *v, const u8 *src, u8 *image)
{
	for (unsigned int i = 0; i < v->nfields; i++) {
		const struct field *f = &v->fields[i];

		if (f->src < 0)
			memset(image + f->dst, 0, f->size);
		else
			memcpy(image + f->dst, src + f->src, f->size);
	}
}

void effect_image(const struct attempt *a, const u8 *src, u8 *image)
{
	const struct variant *v = a->variant;

	switch (v->effect) {
	case EFFECT_COPY:
		memcpy(image, src, a->count);
		break;
	case EFFECT_CLEAR:
		memset(image, 0, a->count);
		break;
	case EFFECT_STORE_FIELDS:
		for (unsigned int r = 0; r < a->count; r++)
			record_image(v, src + r * v->record[SIDE_SRC],
				     image + r * v->record[SIDE_DST]);
		break;
	case EFFECT_CHECKSUM:
		break;
	}
}

unsigned int effect_possible(const struct attempt *a)
{
	const struct variant *v = a->variant;
	unsigned int end = 0;

	if (v->effect != EFFECT_STORE_FIELDS)
		return a->limit;
	/* A record is done when the last of its fields is, which may be short of its end. */
	for (unsigned int i = 0; i < v->nfields; i++)
		end = max(end, (unsigned int)v->fields[i].dst + v->fields[i].size);
	if (a->limit < end)
		return 0;
	return min(a->count, (a->limit - end) / v->record[SIDE_DST] + 1);
}

unsigned int effect_sum(const u8 *bytes, unsigned int count, u32 seed)
{
	return checksum_fold(checksum_add(bytes, count) + seed);
}
