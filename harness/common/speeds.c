// SPDX-License-Identifier: GPL-2.0-or-later
#include "speeds.h"

#ifdef __KERNEL__
#include <linux/kernel.h>
#else
#include <stdio.h>
#endif

#define WIDTH 1030	/* per mille: how far slow samples of one speed lie apart */
#define LEAST_OF_ONE 3	/* slow samples that may be a speed */
#define LIKE_COSTS 1100 /* per mille: what is slow by less may be what memory of ours costs */
#define LEAST_CONTROLS 12
#define PART 8	      /* one part in so many of samples that are kept: the least that is a group */
#define LEAST_GROUP 3 /* samples */

/* How many events there are beyond chance: counts in hundredths, deviations of a Poisson count. */
static bool beyond(unsigned int count, u64 expected, u64 variance, unsigned int deviations)
{
	u64 more;

	if (100ull * count <= expected + 100)
		return false;
	more = 100ull * count - expected - 100;
	return more * more > 100ull * deviations * deviations * (variance + 100);
}

/* Calibrations that were longer than their neighbour by from to to millionths of a quick one. */
static unsigned int hit(const struct series *s, u64 from, u64 to)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < s->count; i++) {
		const struct sample *one = &s->sample[i];
		u64 more = integers_scale(integers_apart(one->before, one->behind), MILLION,
					  s->notes.quick[one->turn]);

		count += more >= from && more <= to;
	}
	return count;
}

/* So many calibrations hit mean that so many targets are, in hundredths, by the time they take. */
static u64 targets_hit(const struct series *s, unsigned int hits)
{
	const struct series_notes *n = &s->notes;
	u64 cycles = 0, most = 100ull * n->accepted, slow;

	for (unsigned int t = 0; t < s->targets; t++)
		cycles += integers_scale(n->fast[t], s->repetitions, MILLION);
	slow = integers_scale(100ull * hits * n->accepted, cycles, 2 * s->count * s->known);
	return slow < most ? slow : most;
}

/* Slow samples that chance explains, in hundredths, and the variance of their number. */
static u64 explained(const struct series *s, u64 *variance)
{
	const struct series_notes *n = &s->notes;
	u64 slow;

	if (n->controls < LEAST_CONTROLS)
		return *variance = targets_hit(s, hit(s, 1000 * series_window(s), ~0ull));
	slow = integers_scale(100ull * n->slow_controls, n->accepted, n->controls);
	*variance = slow + integers_scale(slow, n->accepted, n->controls);
	return slow;
}

/* The most slow samples that are of one speed, and the least of these, per mille. */
static unsigned int of_one_speed(const struct series_notes *n, unsigned int slow, u64 *from)
{
	unsigned int most = 0;

	for (unsigned int i = 0, end = 0; i < slow; i++) {
		while (end < slow && n->slow[end] * 1000 <= n->slow[i] * WIDTH)
			end++;
		if (end - i > most) {
			most = end - i;
			*from = n->slow[i];
		}
	}
	return most;
}

/*
 * Whether many of the slow samples are as slow as each other, where interruptions that cost as much
 * were fewer. A neighbour is none that comes and goes with the targets, between canaries.
 */
static bool a_second_speed(const struct series *s, struct reading *r)
{
	const struct series_notes *n = &s->notes;
	u64 from = 0, least = ~0ull, most = 0, explains;
	unsigned int count = of_one_speed(n, r->slow, &from);

	if (count < LEAST_OF_ONE || from < SERIES_HOT)
		return false;
	for (unsigned int t = 0; t < s->targets; t++) {
		u64 cycles = integers_scale(n->fast[t], s->repetitions, MILLION);
		u64 more = integers_scale(cycles, 1000 * (from - 1000), s->known);

		least = more < least ? more : least;
		most = more > most ? more : most;
	}
	explains = targets_hit(s, hit(s, least * 3 / 4, most * 4 / 3));
	r->doubtful |= beyond(count, explains, explains, 1);
	if (!beyond(count, explains, explains, 3) ||
	    count * (from < LIKE_COSTS ? PART / 2 : PART) < r->accepted || 5 * count < 2 * r->slow)
		return false;
	snprintf(r->two_speeds, sizeof(r->two_speeds),
		 "%u of %u samples took %u.%02u times as long as the others, where interruptions "
		 "explain %u",
		 count, r->accepted, (unsigned int)from / 1000, (unsigned int)from % 1000 / 10,
		 (unsigned int)(explains + 50) / 100);
	return true;
}

static bool slow_too_often(const struct series *s, struct reading *r)
{
	u64 variance, expected = explained(s, &variance);

	r->expected = expected;
	r->doubtful |= beyond(r->slow, expected, variance, 2);
	if (!beyond(r->slow, expected, variance, 3))
		return false;
	snprintf(
	    r->two_speeds, sizeof(r->two_speeds),
	    "%u of %u samples took %u.%02u to %u.%02u times as long as the others, where noise "
	    "explains %u",
	    r->slow, r->accepted, r->slow_from / 1000, r->slow_from % 1000 / 10, r->slow_to / 1000,
	    r->slow_to % 1000 / 10, (r->expected + 50) / 100);
	return true;
}

static u64 mean(const u64 *values, unsigned int count)
{
	u64 sum = 0;

	for (unsigned int i = 0; i < count; i++)
		sum += values[i] / count;
	return sum;
}

/* Whether what was kept lies in two groups, with a gap between them. */
static bool in_two_groups(const struct series *s, struct reading *r)
{
	const u64 *sorted = s->notes.sorted;
	unsigned int least = (s->most - 1000) / 3 * s->targets, group = r->samples / PART, at = 0;
	u64 gap = 0, low, high;

	group = group < LEAST_GROUP ? LEAST_GROUP : group;
	for (unsigned int i = group; i + group <= r->samples; i++)
		if (sorted[i] - sorted[i - 1] > gap) {
			gap = sorted[i] - sorted[i - 1];
			at = i;
		}
	if (!at)
		return false;
	low = mean(sorted, at);
	high = mean(sorted + at, r->samples - at);
	if (3 * gap <= 2 * (high - low) || high - low < integers_scale(low, least, 1000))
		return false;
	r->doubtful = true;
	snprintf(r->two_speeds, sizeof(r->two_speeds),
		 "samples lie in two groups, around %llu.%03llu and %llu.%03llu cycles",
		 (unsigned long long)(low / MILLION), (unsigned long long)(low % MILLION / 1000),
		 (unsigned long long)(high / MILLION), (unsigned long long)(high % MILLION / 1000));
	return true;
}

/* The median of what the samples take whose slowest target is from so many to so many per mille. */
static u64 speed(struct series *s, u64 from, u64 to)
{
	struct series_notes *n = &s->notes;
	unsigned int count = 0;

	for (unsigned int i = 0; i < n->accepted; i++) {
		u64 first = n->cycles[0][i], second = s->targets > 1 ? n->cycles[1][i] : 2 * first;

		if (n->ratio[i] >= from && n->ratio[i] <= to)
			n->sorted[count++] = second > first ? second - first : 0;
	}
	integers_sort(n->sorted, count);
	return count ? integers_quantile(n->sorted, count, 50) : 0;
}

void speeds_refuse(struct series *s, struct reading *r)
{
	unsigned int window = series_window(s), count;
	u64 variance, expected = explained(s, &variance), from = 0;

	r->unsteady = beyond(r->slow, expected, variance, 3);
	snprintf(r->refused, sizeof(r->refused),
		 "%s: %u of %u samples lie within %u.%u %% of the quick ones",
		 r->unsteady ? "of no one speed" : "disturbed", r->samples, r->accepted,
		 window / 10, window % 10);
	count = of_one_speed(&s->notes, r->slow, &from);
	if (!r->unsteady || r->samples < LEAST_OF_ONE || count < LEAST_OF_ONE ||
	    4 * count < 3 * r->slow)
		return;
	r->speed[0] = speed(s, 0, 1000 + window);
	r->speed[1] = speed(s, from, from * WIDTH / 1000);
}

void speeds_look(const struct series *s, struct reading *r)
{
	/* Memory has slow times of its own. */
	if (s->most == SERIES_HOT && (slow_too_often(s, r) || a_second_speed(s, r)))
		return;
	in_two_groups(s, r);
}
