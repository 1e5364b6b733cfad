// SPDX-License-Identifier: GPL-2.0-or-later
#include "series.h"

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
#define WIDTH 1030	  /* per mille: how far slow samples of one speed lie apart */
#define LEAST_OF_ONE 3	  /* slow samples that may be a speed */
#define LIKE_COSTS 1100	  /* per mille: what is slow by less may be what memory of ours costs */
#define LEAST_CONTROLS 12
#define PART 8	      /* one part in so many of samples that are kept: the least that is a group */
#define LEAST_GROUP 3 /* samples */

/*
 * Per mille by which a sample may be above the quick ones: less for each of two targets, because an
 * error in either weighs more in their difference.
 */
static unsigned int window_of(const struct series *s)
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

/*
 * Find the quick calibrations and the least instructions: disturbances never remove instructions.
 */
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

/* Ticks between two calibrations of known cycles as cycles, in millionths. */
static u64 cycles_of(u64 known, const struct sample *one, u64 ticks)
{
	return integers_scale(ticks, 2 * MILLION * known, one->before + one->behind);
}

bool series_slowed(u64 known, const struct sample *one, u64 ticks, u64 alone)
{
	return cycles_of(known, one, ticks) > integers_scale(alone, SHARED, 1000);
}

static bool shares(const struct series *s, const struct sample *one)
{
	for (int i = 0; i < SERIES_CANARIES; i++)
		if (s->canary[i] && one->canary[i] &&
		    series_slowed(s->known, one, one->canary[i], s->canary[i]))
			return true;
	return false;
}

/* Count a stream in place of the targets: whatever slows it would have slowed them. */
static void compare_control(struct series *s, const struct sample *one)
{
	s->notes.controls++;
	s->notes.slow_controls += cycles_of(s->known, one, one->target[0]) >
				  integers_scale(one->control, 1000 + window_of(s), 1000);
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
			    cycles_of(s->known, one, one->target[t]) / s->repetitions;
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

/* Compare each accepted sample with the quick ones; of two targets, the slower one counts. */
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

/* Separate slow samples from the rest, and record how slow they are. */
static void part(struct series *s, struct reading *r)
{
	struct series_notes *n = &s->notes;
	unsigned int most = 1000 + window_of(s);

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

/* The number of events beyond chance, in hundredths, by deviations of a Poisson count. */
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

/*
 * The expected number of targets hit, in hundredths, from the calibrations hit and the time of
 * each.
 */
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
		return *variance = targets_hit(s, hit(s, 1000 * window_of(s), ~0ull));
	slow = integers_scale(100ull * n->slow_controls, n->accepted, n->controls);
	*variance = slow + integers_scale(slow, n->accepted, n->controls);
	return slow;
}

/* The largest group of slow samples with one speed, and the least of these, per mille. */
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
 * True if many of the slow samples are equally slow, and interruptions of that cost were fewer. A
 * slowdown that begins and ends with the targets, between canaries, is no neighbour's.
 */
static bool a_second_speed(const struct series *s, struct reading *r)
{
	const struct series_notes *n = &s->notes;
	u64 from = 0, fewest = ~0ull, most = 0, explains;
	unsigned int count = of_one_speed(n, r->slow, &from);

	if (count < LEAST_OF_ONE || from < SERIES_HOT)
		return false;
	for (unsigned int t = 0; t < s->targets; t++) {
		u64 cycles = integers_scale(n->fast[t], s->repetitions, MILLION);
		u64 more = integers_scale(cycles, 1000 * (from - 1000), s->known);

		fewest = more < fewest ? more : fewest;
		most = more > most ? more : most;
	}
	explains = targets_hit(s, hit(s, fewest * 3 / 4, most * 4 / 3));
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

/* True if the accepted samples form two groups with a gap between them. */
static bool in_two_groups(const struct series *s, struct reading *r)
{
	const u64 *sorted = s->notes.sorted;
	unsigned int apart = (s->most - 1000) / 3 * s->targets, group = r->samples / PART, at = 0;
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
	if (3 * gap <= 2 * (high - low) || high - low < integers_scale(low, apart, 1000))
		return false;
	r->doubtful = true;
	snprintf(r->two_speeds, sizeof(r->two_speeds),
		 "samples lie in two groups, around %llu.%03llu and %llu.%03llu cycles",
		 (unsigned long long)(low / MILLION), (unsigned long long)(low % MILLION / 1000),
		 (unsigned long long)(high / MILLION), (unsigned long long)(high % MILLION / 1000));
	return true;
}

/* The median time of the samples whose slowest target is in a range, in per mille. */
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

/* Write the reason, and the speeds, to a reading with too few samples of one speed. */
static void refuse_speeds(struct series *s, struct reading *r)
{
	unsigned int window = window_of(s), count;
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

/*
 * Record in a reading whether its samples show two speeds, and whether that is in doubt.
 * Interruptions hit calibrations as often as targets, at the same cost; a neighbour on the core
 * also slows the streams that were timed in place of targets, if there are any.
 */
static void look_for_speeds(const struct series *s, struct reading *r)
{
	/* Memory has slow times of its own. */
	if (s->most == SERIES_HOT && (slow_too_often(s, r) || a_second_speed(s, r)))
		return;
	in_two_groups(s, r);
}

static bool enough_kept(struct series *s, struct reading *r)
{
	if (r->samples * LEAST_KEPT >= r->accepted && 4 * r->samples >= 3 * least(s))
		return true;
	refuse_speeds(s, r);
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
	look_for_speeds(s, r);
	return true;
}
