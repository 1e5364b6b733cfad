// SPDX-License-Identifier: GPL-2.0-or-later
#include "trials.h"

#include "../clock.h"
#include "turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_A_TIME 400 /* of one process, which begins with the self-test */
#define TRIES 8
#define IN_VAIN 12 /* processes in a row that brought no answer, some seconds apart */
#define PAUSE 3

static struct plan plan_now;
static double began;
static long first;

static bool lacks(const struct results *r, size_t job)
{
	return r->jobs->jobs[job].kind == KIND_BLOCK && !r->progress[job].accepted[0];
}

struct plan trials_plan(const struct results *r)
{
	return (struct plan){.points = r->ntrials, .missing = r->ntrials - r->answered};
}

/* Show the progress and the remaining time: continuously on a terminal. */
static void say(const struct results *r)
{
	static long last = -1;
	long done = plan_now.points - trials_plan(r).missing;
	bool terminal = isatty(STDERR_FILENO);
	long step = terminal ? done : 20 * done / plan_now.points;
	double seconds = clock_seconds() - began, left;

	if (step == last || !*r->learning)
		return;
	last = step;
	left = done > first ? seconds / (done - first) * (plan_now.points - done) : 0;
	fprintf(stderr, "%slearning %s: %ld of %ld trials", terminal ? "\r\033[K" : "", r->learning,
		done, plan_now.points);
	if (left > 0)
		fprintf(stderr, ", about %.0f %s left", left < 100 ? left : left / 60,
			left < 100 ? "s" : "min");
	fputs(terminal && done < plan_now.points ? "" : "\n", stderr);
}

/* List the next trials that lack an answer and were not tried often enough. */
static size_t next(const struct results *r, const int *tried, uint32_t (*list)[2])
{
	size_t count = 0;

	for (int most = 0; most < TRIES && !count; most++)
		for (size_t i = 0; i < r->jobs->count && count < AT_A_TIME; i++)
			if (lacks(r, i) && tried[i] <= most) {
				list[count][0] = i;
				list[count++][1] = 0;
			}
	return count;
}

int trials_measure(struct results *r, const char *self, const char *jobs)
{
	static uint32_t list[AT_A_TIME][2];
	int *tried = calloc(r->jobs->count + 1, sizeof(*tried)), in_vain = 0, failed = 0;
	size_t count;

	plan_now = trials_plan(r);
	first = plan_now.points - plan_now.missing;
	began = clock_seconds();
	while (!turns_stop && !failed && in_vain < IN_VAIN && (count = next(r, tried, list))) {
		long before = trials_plan(r).missing;

		failed = turns_work(r, list, count, self, jobs, say);
		in_vain = trials_plan(r).missing == before ? in_vain + 1 : 0;
		/* A process whose self-test fails has tried nothing. */
		for (size_t i = 0; i < count && !in_vain; i++)
			tried[list[i][0]]++;
		if (in_vain && in_vain < IN_VAIN && !turns_stop)
			sleep(PAUSE);
		fsync(r->file);
	}
	free(tried);
	return failed;
}
