// SPDX-License-Identifier: GPL-2.0-or-later
#include "measure.h"

#include "effect.h"
#include "readings.h"
#include "records.h"

#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>

#define SKEW 2048 /* (dst - src) mod 4096, but for the alignments: far from aliasing */
#define PAGE 4096 /* by which the skew is taken, whatever the pages are */

static const char *const side_names[] = {"dst", "src", "none"};

/* True if the last call of a burst met no fault, which would have ended it early. */
static bool whole(const struct run *run, const struct call *call)
{
	const struct variant *v = run->selection.variant;

	switch (v->effect) {
	case EFFECT_CHECKSUM:
		return true;
	case EFFECT_STORE_FIELDS:
		return call->result == call->count;
	default:
		return !call->result;
	}
}

static const char *read_calls(const struct run *run, struct meter *meter, struct workspace *room)
{
	const struct selection *s = &run->selection;
	const struct areas *areas = &run->areas;
	void __user *user = (void __user *)areas->user;
	struct call call = {.count = s->count};
	const struct code code = {s->variant->loop, &call, whole};

	memset(areas->kernel[SIDE_DST], 0x55, KERNEL_BYTES);
	memset(areas->kernel[SIDE_SRC], 0xaa, KERNEL_BYTES);
	/* This also makes the user pages present; a burst that still meets a fault is dropped. */
	if (copy_to_user(user, areas->kernel[s->user == SIDE_SRC ? SIDE_SRC : SIDE_DST],
			 USER_BYTES))
		return "the user pages went away";
	call.dst = (s->user == SIDE_DST ? areas->user : (unsigned long)areas->kernel[SIDE_DST]) +
		   s->dst_align;
	call.src = (s->user == SIDE_SRC ? areas->user : (unsigned long)areas->kernel[SIDE_SRC]) +
		   SKEW + s->src_align;
	pagefault_disable();
	meter_read(meter, &code, room);
	pagefault_enable();
	return NULL;
}

int measure(const struct run *run, struct meter *meter, struct workspace *room)
{
	const struct selection *s = &run->selection;
	struct reading *r = &room->reading;
	ktime_t began = ktime_get();
	const char *why;

	memset(r, 0, sizeof(*r));
	if (s->variant->state != HOLDS)
		why = "the check of the variant has not passed";
	else
		why = *meter->gauge.refused ? meter->gauge.refused : read_calls(run, meter, room);
	if (why)
		strscpy(r->refused, why, sizeof(r->refused));
	record_open();
	record_string("record", "measure");
	record_string("mode", "kernel");
	record_string("id", s->variant->id);
	record_string("object", s->variant->object);
	record_integer("offset", s->variant->offset);
	record_integer("entry_mod_64", (unsigned long)s->variant->entry % 64);
	record_integer("count", s->count);
	record_integer("dst_align", s->dst_align);
	record_integer("src_align", s->src_align);
	record_integer("skew", (s->dst_align - SKEW - s->src_align) % PAGE);
	record_string("cache", "hot");
	record_string("user", side_names[s->user]);
	readings_one(r);
	record_integer("milliseconds", ktime_ms_delta(ktime_get(), began));
	record_string("clock", meter->clock);
	record_integer("cpu", run->cpu);
	record_string("release", init_utsname()->release);
	record_string("refused", r->refused);
	return record_close();
}
