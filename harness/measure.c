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

#define SECONDS 30

struct work {
	const struct job *job;
	const struct point *point;
	struct meter *meter;
	struct workspace *room;
};

static void work(void *data)
{
	struct work *w = data;
	const struct job *job = w->job;
	struct reading *r = &w->room->reading;
	/* The caller stands behind the code, on a line of its own. */
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
	meter_read(w->meter, &target, &w->room->series, r);
}

static void print(const struct work *w, double seconds)
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
	json_number("milliseconds", seconds * 1e3);
	json_string("clock", w->meter->clock ? w->meter->clock->name : "");
	json_integer("cpu", w->meter->cpu);
	json_string("refused", r->refused);
	json_close();
}

void measure_point(const struct job *job, size_t point, struct meter *meter)
{
	struct workspace *room = child_share(sizeof(*room));
	struct work w = {job, &job->points[point], meter, room};
	double began = clock_seconds();
	char why[128];

	if (child_run(work, &w, SECONDS, why, sizeof(why)))
		snprintf(room->reading.refused, sizeof(room->reading.refused), "%s", why);
	print(&w, clock_seconds() - began);
	child_unshare(room, sizeof(*room));
}

void measure_job(const struct job *job, struct meter *meter)
{
	for (size_t i = 0; i < job->npoints; i++)
		measure_point(job, i, meter);
}
