// SPDX-License-Identifier: GPL-2.0-or-later
#include "series.h"

#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sort.h>
#include <linux/string.h>

#define MILLION 1000000ull

static u64 apart(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

static u64 quantile(const u64 *sorted, unsigned int count, unsigned int percent)
{
	unsigned int at = percent * (count - 1), low = at / 100;

	if (low + 1 >= count)
		return sorted[count - 1];
	return sorted[low] + (at % 100) * (sorted[low + 1] - sorted[low]) / 100;
}

bool series_judge(struct series *s, u64 hz, struct reading *r)
{
	unsigned int accepted = 0, kept = 0;
	u64 quick;

	memcpy(s->calibrations, s->before, s->count * sizeof(u64));
	memcpy(s->calibrations + s->count, s->behind, s->count * sizeof(u64));
	sort(s->calibrations, 2 * s->count, sizeof(u64), compare, NULL);
	quick = quantile(s->calibrations, 2 * s->count, 10);
	for (unsigned int i = 0; i < s->count; i++) {
		u64 before = s->before[i], behind = s->behind[i];

		if (s->disturbed[i] || apart(before, behind) * 1000 >= before ||
		    max(before, behind) * 100 > quick * 106)
			continue;
		s->hz[accepted] = div64_u64(2 * s->known * hz, before + behind);
		r->sample[accepted] = mul_u64_u64_div_u64(s->target[i] * s->known, 2 * MILLION,
							  (before + behind) * s->repetitions);
		s->cycles[accepted] = r->sample[accepted];
		accepted++;
	}
	r->samples = 0;
	if (accepted * 10 < s->count * 4) {
		snprintf(r->refused, sizeof(r->refused),
			 "disturbed: %u of %u samples acceptable, %u needed", accepted, s->count,
			 (s->count * 4 + 9) / 10);
		return false;
	}
	sort(s->cycles, accepted, sizeof(u64), compare, NULL);
	sort(s->hz, accepted, sizeof(u64), compare, NULL);
	quick = quantile(s->cycles, accepted, 10);
	for (unsigned int i = 0; i < accepted; i++)
		if (r->sample[i] * 100 <= quick * 103)
			r->sample[kept++] = r->sample[i];
	if (kept * 3 < accepted || kept < LEAST_SAMPLES) {
		snprintf(r->refused, sizeof(r->refused),
			 "disturbed: %u of %u samples are not interrupted", kept, accepted);
		return false;
	}
	r->median = quantile(s->cycles, kept, 50);
	r->p10 = quantile(s->cycles, kept, 10);
	r->p90 = quantile(s->cycles, kept, 90);
	r->samples = kept;
	r->core_hz = quantile(s->hz, accepted, 50);
	r->refused[0] = 0;
	return true;
}
