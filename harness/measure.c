// SPDX-License-Identifier: GPL-2.0-or-later
#include "measure.h"

#include "arena.h"
#include "caller.h"
#include "child.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096
#define SKEW 2048 /* (dst - src) mod 4096, but for the alignments: far from aliasing */
#define SECONDS 30

struct work {
	const struct job *job;
	const struct point *point;
	const struct meter *meter;
	struct reading *reading;
};

static size_t side_bytes(const struct job *job, enum side side, size_t count)
{
	return job->effect == EFFECT_STORE_FIELDS ? count * job->record[side] : count;
}

/* Where the buffers stand: the destination page-aligned, the source half a page off. */
static void place(const struct work *w, uint64_t *values)
{
	const struct point *p = w->point;
	size_t dst = side_bytes(w->job, SIDE_DST, p->count),
	       src = side_bytes(w->job, SIDE_SRC, p->count);
	struct arena arena;

	arena = arena_open(dst + p->dst_align + PAGE);
	memset(arena.start, 0x55, arena.size);
	values[ROLE_DST] = (uintptr_t)arena.start + p->dst_align;
	arena = arena_open(src + p->src_align + SKEW + PAGE);
	memset(arena.start, 0xaa, arena.size);
	values[ROLE_SRC] = (uintptr_t)arena.start + SKEW + p->src_align;
	values[ROLE_COUNT] = p->count;
	values[ROLE_SUM] = 0;
}

static void work(void *data)
{
	struct work *w = data;
	const struct job *job = w->job;
	/* The caller stands behind the code, on a line of its own. */
	size_t gap = (job->offset + job->code_size + 127) / 64 * 64 - job->offset, used;
	uint8_t *blob = malloc(gap + CALLER_BYTES), *caller, *code;
	uint64_t values[ROLES] = {0};
	struct arena arena;
	repeat calls;

	/* A process must open its own counter. */
	if (w->meter->clock &&
	    w->meter->clock->open(w->reading->refused, sizeof(w->reading->refused)))
		return;
	place(w, values);
	memset(blob, 0, gap);
	memcpy(blob, job->code, job->code_size);
	/* Relative to the blob, and to any other 64-byte boundary, the same bytes. */
	used = caller_emit(blob + gap, 64, job, values, 64 - gap + job->entry);
	if (!used) {
		snprintf(w->reading->refused, sizeof(w->reading->refused),
			 "the contract leaves no register for a loop counter");
		return;
	}
	code = arena_code(&arena, blob, gap + used, job->offset);
	caller = code + gap;
	memcpy(&calls, &caller, sizeof(calls));
	*w->reading = meter_read(w->meter, calls);
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
	json_integer("skew", (p->dst_align - SKEW - p->src_align) % PAGE);
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
