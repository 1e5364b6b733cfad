// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay.h"

#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <string.h>
#endif

#define SERIES 8 /* numbers of a line */
#define SAMPLE 10
#define LONGEST (1ull << 48) /* ticks, cycles: no burst takes more */

/* Read so many numbers, each after a space, and nothing else. */
static bool numbers(const char *text, u64 *into, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (*text++ != ' ' || *text < '0' || *text > '9')
			return false;
		for (into[i] = 0; *text >= '0' && *text <= '9'; text++) {
			into[i] = 10 * into[i] + (*text - '0');
			if (into[i] > LONGEST)
				return false;
		}
	}
	return !*text || (*text == '\n' && !text[1]);
}

static bool take_series(const u64 *n, struct series *s)
{
	if (s->count || !n[0] || n[0] > SERIES_TARGETS || !n[2] || !n[3] ||
	    (n[1] != SERIES_HOT && n[1] != SERIES_COLD))
		return false;
	s->targets = n[0];
	s->most = n[1];
	s->repetitions = n[2];
	s->known = n[3];
	s->hz = n[4];
	memcpy(s->canary, n + 5, sizeof(s->canary));
	s->sliced = n[7];
	return true;
}

static bool take_sample(const u64 *n, struct series *s)
{
	struct sample *one = &s->sample[s->count];

	if (s->count == SERIES_MOST || !n[0] || !n[1] || n[9] >= SERIES_TURNS)
		return false;
	one->before = n[0];
	one->behind = n[1];
	memcpy(one->target, n + 2, sizeof(one->target));
	memcpy(one->canary, n + 4, sizeof(one->canary));
	one->instructions = n[6];
	one->control = n[7];
	one->disturbed = n[8];
	one->turn = n[9];
	s->count++;
	return true;
}

bool replay_line(const char *line, struct series *series)
{
	u64 n[SAMPLE];

	if (!strncmp(line, "series", 6))
		return numbers(line + 6, n, SERIES) && take_series(n, series);
	if (!strncmp(line, "sample", 6))
		return numbers(line + 6, n, SAMPLE) && take_sample(n, series);
	return false;
}

bool replay_whole(const struct series *series)
{
	return series->targets && series->count;
}
