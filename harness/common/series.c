// SPDX-License-Identifier: GPL-2.0-or-later
#include "series.h"

#include "speeds.h"

#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/string.h>
#else
#include <stdio.h>
#include <string.h>
#endif

#define SAME_CLOCK 1000	  /* one part in so many: most that calibrations around a sample differ */
#define SLOW_CLOCK 1060	  /* per mille: most that a calibration may be above the quick ones */
#define SAME_SLICED 200	  /* the same where they are taken in slices, */
#define SLOW_SLICED 1150  /* whose targets see the same speeds of the core */
#define SHARED 1030	  /* per mille: a canary that is slower by this shares the core */
#define INTERRUPTS 4	  /* instructions: a return from one may count in user mode */
#define LEAST_ACCEPTED 10 /* one part in so many of those taken */
#define LEAST_KEPT 3	  /* the same of those accepted */
#define LOST 5		  /* one part in so many that a brief series may lose */

unsigned int series_window(const struct series *s)
{
	return (s->most - 1000) / s->targets;
}

static u64 greater(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* The tenth percentile of a turn's calibrations. */
static u64 quick(struct series *s, unsigned int turn)
{
	struct series_notes *n = &s->notes;
	unsigned int count = 0;

	for (unsigned int i = 0; i < s->count; i++) {
		const struct sample *one = &s->sample[i];

		if (one->turn != turn || !one->before || !one->behind)
			continue;
		n->sorted[count++] = one->before;
		n->sorted[count++] = one->behind;
	}
	integers_sort(n->sorted, count);
	return count ? integers_quantile(n->sorted, count, 10) : 0;
}

/* Find the quick calibrations and the least instructions: what disturbs takes none away. */
static void look(struct series *s)
{
	struct series_notes *n = &s->notes;

	n->least = ~0ull;
	for (unsigned int turn = 0; turn < SERIES_TURNS; turn++)
		n->quick[turn] = quick(s, turn);
	for (unsigned int i = 0; i < s->count; i++)
		if (s->sample[i].before && s->sample[i].behind &&
		    s->sample[i].instructions < n->least)
			n->least = s->sample[i].instructions;
}

/* Ticks between two calibrations as cycles, in millionths. */
static u64 cycles_of(const struct series *s, const struct sample *one, u64 ticks)
{
	return integers_scale(ticks, 2 * MILLION * s->known, one->before + one->behind);
}

static bool shares(const struct series *s, const struct sample *one)
{
	for (int i = 0; i < SERIES_CANARIES; i++)
		if (s->canary[i] && one->canary[i] &&
		    cycles_of(s, one, one->canary[i]) > integers_scale(s->canary[i], SHARED, 1000))
			return true;
	return false;
}

/* Count a stream that stood for the targets: what slows it would have slowed them. */
static void compare_control(struct series *s, const struct sample *one)
{
	s->notes.controls++;
	s->notes.slow_controls += cycles_of(s, one, one->target[0]) >
				  integers_scale(one->control, 1000 + series_window(s), 1000);
}

static void accept(struct series *s)
{
	struct series_notes *n = &s->notes;

	for (unsigned int i = 0; i < s->count; i++) {
		const struct sample *one = &s->sample[i];
		u64 apart = integers_apart(one->before, one->behind);
		u64 slow = greater(one->before, one->behind);

		n->taken += !one->control;
		if (one->disturbed || one->instructions > n->least + INTERRUPTS ||
		    apart * (s->sliced ? SAME_SLICED : SAME_CLOCK) >= one->before ||
		    slow > integers_scale(n->quick[one->turn], s->sliced ? SLOW_SLICED : SLOW_CLOCK,
					  1000))
			continue;
		if (shares(s, one)) {
			n->shared++;
			continue;
		}
		if (one->control) {
			compare_control(s, one);
			continue;
		}
		for (unsigned int t = 0; t < s->targets; t++)
			n->cycles[t][n->accepted] =
			    cycles_of(s, one, one->target[t]) / s->repetitions;
		n->which[n->accepted++] = i;
	}
}

/* Samples that have to be accepted. */
static unsigned int least(const struct series *s)
{
	return s->brief ? s->brief - s->brief / LOST : SERIES_LEAST;
}

static bool enough_accepted(const struct series *s, struct reading *r)
{
	const struct series_notes *n = &s->notes;
	unsigned int needed = (n->taken + LEAST_ACCEPTED - 1) / LEAST_ACCEPTED;

	if (needed < least(s))
		needed = least(s);
	if (n->accepted >= needed)
		return true;
	if (n->accepted + n->shared >= needed)
		snprintf(r->refused, sizeof(r->refused),
			 "something shares the core: in %u of %u samples streams of the self-test "
			 "are slow",
			 n->shared, s->count);
	else
		snprintf(r->refused, sizeof(r->refused),
			 "disturbed: %u of %u samples acceptable, %u needed", n->accepted, n->taken,
			 needed);
	return false;
}

/* Compare each accepted sample with the quick ones; of two targets the slower counts. */
static void compare(struct series *s)
{
	struct series_notes *n = &s->notes;

	memset(n->ratio, 0, n->accepted * sizeof(*n->ratio));
	for (unsigned int t = 0; t < s->targets; t++) {
		memcpy(n->sorted, n->cycles[t], n->accepted * sizeof(*n->sorted));
		integers_sort(n->sorted, n->accepted);
		n->fast[t] = greater(integers_quantile(n->sorted, n->accepted, 10), 1);
		for (unsigned int i = 0; i < n->accepted; i++)
			n->ratio[i] =
			    greater(n->ratio[i], integers_scale(n->cycles[t][i], 1000, n->fast[t]));
	}
}

static u64 value(const struct series *s, unsigned int i)
{
	u64 first = s->notes.cycles[0][i], second = s->notes.cycles[1][i];

	if (s->targets == 1)
		return first;
	return second > first ? second - first : 0;
}

static u64 core_hz(struct series *s)
{
	struct series_notes *n = &s->notes;

	for (unsigned int i = 0; i < n->accepted; i++) {
		const struct sample *one = &s->sample[n->which[i]];

		n->sorted[i] = integers_scale(2 * s->known, s->hz, one->before + one->behind);
	}
	integers_sort(n->sorted, n->accepted);
	return integers_quantile(n->sorted, n->accepted, 50);
}

/* Part what is slow from the rest; say how slow. */
static void part(struct series *s, struct reading *r)
{
	struct series_notes *n = &s->notes;
	unsigned int most = 1000 + series_window(s);

	for (unsigned int i = 0; i < n->accepted; i++) {
		if (n->ratio[i] <= most)
			r->sample[r->samples++] = value(s, i);
		else
			n->slow[r->slow++] = n->ratio[i];
	}
	if (!r->slow)
		return;
	integers_sort(n->slow, r->slow);
	r->slow_from = integers_quantile(n->slow, r->slow, 10);
	r->slow_to = integers_quantile(n->slow, r->slow, 90);
}

static bool enough_kept(struct series *s, struct reading *r)
{
	if (r->samples * LEAST_KEPT >= r->accepted && 4 * r->samples >= 3 * least(s))
		return true;
	speeds_refuse(s, r);
	return false;
}

bool series_judge(struct series *s, struct reading *r)
{
	struct series_notes *n = &s->notes;

	memset(r, 0, sizeof(*r));
	memset(n, 0, sizeof(*n));
	r->repetitions = s->repetitions;
	look(s);
	accept(s);
	r->taken = n->taken;
	r->accepted = n->accepted;
	if (!enough_accepted(s, r))
		return false;
	compare(s);
	r->core_hz = core_hz(s);
	part(s, r);
	if (!enough_kept(s, r))
		return false;
	memcpy(n->sorted, r->sample, r->samples * sizeof(*n->sorted));
	integers_sort(n->sorted, r->samples);
	r->median = integers_quantile(n->sorted, r->samples, 50);
	r->p10 = integers_quantile(n->sorted, r->samples, 10);
	r->p90 = integers_quantile(n->sorted, r->samples, 90);
	speeds_look(s, r);
	return true;
}
