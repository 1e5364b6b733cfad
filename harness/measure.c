// SPDX-License-Identifier: GPL-2.0-or-later
#include "measure.h"

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
	const struct meter *meter;
	struct reading *reading;
};

static void work(void *data)
{
	struct work *w = data;
	const struct job *job = w->job;
	/* The caller stands behind the code, on a line of its own. */
	size_t gap = (job->offset + job->code_size + 127) / 64 * 64 - job->offset, used;
	uint8_t *blob = malloc(gap + CALLER_BYTES), *caller, *code;
	struct placement placement;
	struct target target = {0};
	struct arena arena;

	/* A process must open its own counter. */
	if (w->meter->clock &&
	    w->meter->clock->open(w->reading->refused, sizeof(w->reading->refused)))
		return;
	placement = placement_open(job, w->point);
	memset(blob, 0, gap);
	memcpy(blob, job->code, job->code_size);
	/* Relative to the blob, and to any other 64-byte boundary, the same bytes. */
	used = caller_emit(blob + gap, 64, job, &placement, 64 - gap + job->entry);
	if (!used) {
		snprintf(w->reading->refused, sizeof(w->reading->refused),
			 "the contract leaves no register for a loop counter");
		return;
	}
	code = arena_code(&arena, blob, gap + used, job->offset);
	caller = code + gap;
	memcpy(&target.code, &caller, sizeof(target.code));
	if (w->point->cold) {
		target.prepare = placement_flush;
		target.data = &placement;
		target.most = placement.most;
	}
	*w->reading = meter_read(w->meter, &target);
}

static void print(const struct work *w, double seconds)
{
	const struct point *p = w->point;
	const struct reading *r = w->reading;

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
	json_number("cycles", r->median);
	json_number("p10", r->p10);
	json_number("p90", r->p90);
	json_array_open("samples");
	for (int i = 0; i < r->samples; i++)
		json_item_number(r->sample[i]);
	json_array_close();
	json_integer("attempts", r->attempts);
	json_number("milliseconds", seconds * 1e3);
	json_number("core_hz", r->core_hz);
	json_string("clock", w->meter->clock ? w->meter->clock->name : "");
	json_integer("cpu", w->meter->cpu);
	json_string("refused", r->refused);
	json_close();
}

void measure_point(const struct job *job, size_t point, const struct meter *meter)
{
	struct reading *reading = child_share(sizeof(*reading));
	struct work w = {job, &job->points[point], meter, reading};
	double began = clock_seconds();
	char why[128];

	if (child_run(work, &w, SECONDS, why, sizeof(why)))
		snprintf(reading->refused, sizeof(reading->refused), "%s", why);
	print(&w, clock_seconds() - began);
	child_unshare(reading, sizeof(*reading));
}

void measure_job(const struct job *job, const struct meter *meter)
{
	for (size_t i = 0; i < job->npoints; i++)
		measure_point(job, i, meter);
}
