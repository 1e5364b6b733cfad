// SPDX-License-Identifier: GPL-2.0-or-later
#include "measure.h"

#include "answer.h"
#include "arena.h"
#include "caller.h"
#include "child.h"
#include "json.h"
#include "placement.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 30
#define TURNS 4 /* in which the samples of a point are taken, those of others between them */
#define LEAST_GAP 50000 /* us, between turns: few points wait, since speeds may change slowly */
#define GAPS 300000	/* us: how far gaps differ */

struct work {
	const struct job *job;
	const struct point *point;
	struct meter *meter;
	struct workspace *room;
	unsigned int turns_left;
	double seconds;
};

static void work(void *data)
{
	struct work *w = data;
	const struct job *job = w->job;
	struct reading *r = &w->room->reading;
	/* The caller is after the code, on a separate line. */
	size_t gap = (job->offset + job->code_size + 127) / 64 * 64 - job->offset, used;
	uint8_t *blob = malloc(gap + CALLER_BYTES), *caller, *code;
	struct placement placement;
	struct code target = {0};
	struct arena arena;

	/* A process must open its own counter. */
	if (w->meter->clock && w->meter->clock->open(r->refused, sizeof(r->refused)))
		return;
	placement = placement_open(job, w->point);
	memset(blob, 0, gap);
	memcpy(blob, job->code, job->code_size);
	/* Relative to the blob, and to any other 64-byte boundary, the same bytes. */
	used = caller_emit(blob + gap, 64, job, &placement, 64 - gap + job->entry);
	if (!used) {
		snprintf(r->refused, sizeof(r->refused),
			 "the contract leaves no register for a loop counter");
		return;
	}
	code = arena_code(&arena, blob, gap + used, job->offset);
	caller = code + gap;
	memcpy(&target.run, &caller, sizeof(target.run));
	if (w->point->cold) {
		target.prepare = placement_flush;
		target.data = &placement;
		target.most = placement.most;
	}
	meter_read(w->meter, &target, w->turns_left, &w->room->series, r);
}

static void print(const struct work *w)
{
	const struct point *p = w->point;
	const struct reading *r = &w->room->reading;

	json_open();
	json_string("id", w->job->id);
	if (w->job->object)
		json_string("object", w->job->object);
	json_integer("point", p - w->job->points);
	json_integer("offset", w->job->offset);
	json_integer("count", p->count);
	json_integer("dst_align", p->dst_align);
	json_integer("src_align", p->src_align);
	json_integer("skew", p->skew);
	json_string("cache", p->cold ? "cold" : "hot");
	answer_reading(r);
	if (w->job->series)
		answer_series(&w->room->series);
	json_number("milliseconds", w->seconds * 1e3);
	json_string("clock", w->meter->clock ? w->meter->clock->name : "");
	json_integer("cpu", w->meter->cpu);
	json_string("refused", r->refused);
	json_close();
}

/* Measure a point's turn; false if it needs no other. */
static bool take_turn(struct work *w)
{
	struct reading *r = &w->room->reading;
	double began = clock_seconds();
	char why[128];

	if (child_run(work, w, SECONDS, why, sizeof(why)))
		snprintf(r->refused, sizeof(r->refused), "%s", why);
	w->seconds += clock_seconds() - began;
	if (*r->refused)
		w->turns_left = 0;
	return w->turns_left && w->turns_left--;
}

static void wait_until(double when)
{
	double left = when - clock_seconds();

	if (left > 0)
		usleep(left * 1e6);
}

/* Measure a turn of each point that needs one, until none does. */
static void take_turns(struct work *works, size_t count)
{
	bool again[MEASURE_POINTS];
	size_t left = count;

	for (size_t i = 0; i < count; i++)
		again[i] = true;
	for (double next = 0; left;) {
		wait_until(next);
		next = clock_seconds() + (LEAST_GAP + random() % GAPS) * 1e-6;
		left = 0;
		for (size_t i = 0; i < count; i++) {
			again[i] = again[i] && take_turn(&works[i]);
			left += again[i];
		}
	}
}

void measure_points(const struct task *tasks, size_t count, struct meter *meter)
{
	struct workspace *rooms = child_share(count * sizeof(*rooms));
	struct work works[MEASURE_POINTS];

	for (size_t i = 0; i < count; i++) {
		const struct point *point = &tasks[i].job->points[tasks[i].point];

		/* Cold buffers are many; their addresses affect the figure. */
		works[i] = (struct work){.job = tasks[i].job,
					 .point = point,
					 .meter = meter,
					 .room = &rooms[i],
					 .turns_left = point->cold ? 0 : TURNS - 1};
	}
	take_turns(works, count);
	for (size_t i = 0; i < count; i++)
		print(&works[i]);
	child_unshare(rooms, count * sizeof(*rooms));
}
