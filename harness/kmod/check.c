// SPDX-License-Identifier: GPL-2.0-or-later
#include "check.h"

#include "arch.h"
#include "common/checksum.h"
#include "effect.h"
#include "records.h"

#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define AROUND 64 /* bytes on each side of the destination that must stay as they are */
#define FULL 130  /* sizes whose fault positions are all tried */
#define MOST 4096 /* bytes of the largest case */
#define STRIDE 61 /* between fault positions of larger sizes; odd, so that alignments change */
#define RECORDS 6 /* most records of a case */
#define ALIGNMENTS 16
#define UNTOUCHED 0x5a
#define STRAY 0x4141414141414141ul /* no address */

static const unsigned int large[] = {191, 192, 255, 256, 257, 511, 777, 1024, 2049, MOST};

/* The check of one variant: its cases so far, and the first that failed. */
struct check {
	const struct run *run;
	const struct variant *variant;
	u64 cases;
	u64 faults;
	unsigned int over_report; /* most bytes by which a count was above what was possible */
	char failure[240];
	u8 image[MOST + 2 * AROUND];
	u8 got[MOST + 2 * AROUND];
};

static void fail(struct check *c, const struct attempt *a, const struct call *call,
		 const char *what)
{
	snprintf(c->failure, sizeof(c->failure),
		 "%s %u, user side %s, fault at %u, dst %lu and src %lu mod 64, returned %ld: %s",
		 c->variant->effect == EFFECT_STORE_FIELDS ? "records" : "size", a->count,
		 a->user == SIDE_DST   ? "dst"
		 : a->user == SIDE_SRC ? "src"
				       : "none",
		 a->limit, call->dst % 64, call->src % 64, (long)call->result, what);
}

/* Return the error in the result of a faulting call, or NULL. */
static const char *result_wrong(struct check *c, const struct attempt *a, unsigned long result,
				unsigned int *done)
{
	unsigned int possible = effect_possible(a), missing = a->count - possible;

	if (c->variant->effect == EFFECT_STORE_FIELDS) {
		*done = possible;
		return result == possible ? NULL : "not the number of records that could be stored";
	}
	if (result > a->count)
		return "more bytes are not done than there are";
	*done = a->count - result;
	if (result < missing)
		return "fewer bytes are not done than cannot be accessed";
	if (result > missing && (c->variant->exact || !missing))
		return "more bytes are not done than cannot be accessed";
	if (possible && !*done)
		return "no progress";
	c->over_report = max(c->over_report, (unsigned int)(result - missing));
	return NULL;
}

/* Return the error in the destination (c->got; c->image is the image), or NULL. */
static const char *bytes_wrong(struct check *c, const struct attempt *a, unsigned int done,
			       unsigned int readable)
{
	unsigned int claimed =
	    c->variant->effect == EFFECT_STORE_FIELDS ? done * c->variant->record[SIDE_DST] : done;

	for (unsigned int i = 0; i < readable; i++) {
		u8 got = c->got[i];
		bool inside = i >= AROUND && i < AROUND + a->bytes[SIDE_DST];

		if (!inside && got != UNTOUCHED)
			return "a byte around the destination is written";
		if (inside && i < AROUND + claimed && got != c->image[i])
			return "a byte that counts as done is wrong";
		if (inside && got != c->image[i] && got != UNTOUCHED)
			return "a byte behind those that count as done is neither old nor new";
	}
	return NULL;
}

/* Call once, with the user side as in a and the kernel side at the address in call. */
static bool attempt(struct check *c, const struct attempt *a, struct call *call, const u8 *src)
{
	unsigned int dst = a->bytes[SIDE_DST], readable = dst + 2 * AROUND, done = 0;
	u8 __user *user = (u8 __user *)(a->user == SIDE_DST ? call->dst : call->src);
	u8 *start = (u8 *)call->dst - AROUND;
	const char *wrong;

	if (dst > MOST || a->bytes[SIDE_SRC] > MOST)
		return fail(c, a, call, "more bytes than are checked"), false;
	c->cases++;
	c->faults += a->user != SIDE_NONE && a->limit < a->bytes[a->user];
	memset(c->image, UNTOUCHED, dst + 2 * AROUND);
	if (a->user == SIDE_DST) {
		/* After an inaccessible page there is nothing to fill or to check. */
		if (a->limit < dst || (call->dst + dst) % PAGE_SIZE == 0)
			readable = AROUND + a->limit;
		if (copy_to_user(user - AROUND, c->image, readable))
			return fail(c, a, call, "the user pages went away"), false;
	} else {
		memset(start, UNTOUCHED, dst + 2 * AROUND);
	}
	if (a->user == SIDE_SRC && copy_to_user(user, src, a->limit))
		return fail(c, a, call, "the user pages went away"), false;
	effect_image(a, src, c->image + AROUND);
	arch_access_begin();
	c->variant->once(call, 1);
	wrong = arch_state_wrong(c->variant, call);
	arch_access_end();
	if (!wrong && c->variant->effect == EFFECT_CHECKSUM) {
		if (checksum_fold((u32)call->result) != effect_sum(src, a->count, call->sum))
			wrong = "the sum is wrong";
	} else if (!wrong) {
		wrong = result_wrong(c, a, call->result, &done);
		if (a->user != SIDE_DST)
			memcpy(c->got, start, readable);
		else if (!wrong && copy_from_user(c->got, user - AROUND, readable))
			wrong = "the user pages went away";
		if (!wrong)
			wrong = bytes_wrong(c, a, done, readable);
	}
	if (wrong)
		fail(c, a, call, wrong);
	return !wrong;
}

/* A case: the user side ends at the inaccessible page after limit bytes, or begins at align. */
static bool try_case(struct check *c, enum side user, unsigned int count, unsigned int limit,
		     bool flush, unsigned int align, unsigned int other)
{
	const struct areas *areas = &c->run->areas;
	struct attempt a = {c->variant, user, count, limit};
	unsigned long at[SIDES];
	struct call call = {.count = count, .sum = 0x10001ul * count};
	u8 *pattern = areas->kernel[SIDE_SRC];

	effect_size(&a);
	for (int side = 0; side < SIDES; side++) {
		at[side] = (unsigned long)areas->kernel[side] + 2 * AROUND + other;
		if (side == user)
			at[side] = flush ? areas->user + USER_BYTES - limit
					 : areas->user + PAGE_SIZE + align;
	}
	call.dst = at[SIDE_DST];
	call.src = at[SIDE_SRC];
	/* A copy of the source is in the kernel, also where the routine reads it from a user. */
	pattern += 2 * AROUND + other;
	for (unsigned int i = 0; i < a.bytes[SIDE_SRC]; i++)
		pattern[i] = (i * 167 + (i >> 8) * 59 + c->cases) % 251 | 1;
	return attempt(c, &a, &call, pattern);
}

static bool keep_on(struct check *c)
{
	cond_resched();
	return !*c->failure && !run_ends(c->run);
}

static unsigned int unit(const struct check *c, enum side user)
{
	return c->variant->effect == EFFECT_STORE_FIELDS ? c->variant->record[user] : 1;
}

/* All of one size: each alignment without a fault, then fault positions a step apart. */
static void one_size(struct check *c, enum side user, unsigned int count, unsigned int step)
{
	unsigned int bytes = user == SIDE_NONE ? 0 : count * unit(c, user);

	for (unsigned int align = 0; align < ALIGNMENTS && keep_on(c); align++)
		try_case(c, user, count, bytes, false, align, (align * 5 + count) % ALIGNMENTS);
	if (user == SIDE_NONE)
		return;
	for (unsigned int limit = 0; limit <= bytes && keep_on(c); limit += step)
		try_case(c, user, count, limit, true, 0, (limit * 3 + count) % ALIGNMENTS);
	if (keep_on(c))
		try_case(c, user, count, bytes, true, 0, count % ALIGNMENTS);
}

/* Records of a case, as many as there is room to check. */
static unsigned int most_records(const struct variant *v)
{
	unsigned int fit = MOST / max_t(unsigned int, 1, max(v->record[0], v->record[1]));

	return v->counted ? min_t(unsigned int, RECORDS, fit) : min(1u, fit);
}

static void one_side(struct check *c, enum side user)
{
	if (c->variant->effect == EFFECT_STORE_FIELDS) {
		unsigned int last = most_records(c->variant);

		if (!last)
			scnprintf(c->failure, sizeof(c->failure),
				  "records of more than %u bytes are not checked", MOST);

		for (unsigned int count = !c->variant->counted; count <= last && keep_on(c);
		     count++)
			one_size(c, user, count, 1);
		return;
	}
	for (unsigned int size = 0; size <= FULL && keep_on(c); size++)
		one_size(c, user, size, 1);
	for (unsigned int i = 0; i < ARRAY_SIZE(large) && keep_on(c); i++)
		one_size(c, user, large[i], STRIDE);
}

/*
 * Call with destinations outside of user memory: kernel memory, which is checked, the border of
 * user space, and non-canonical addresses. A routine that guards itself stores nothing there.
 */
static void strays(struct check *c)
{
	const struct areas *areas = &c->run->areas;
	unsigned long kernel = (unsigned long)areas->kernel[SIDE_DST];
	const unsigned long at[] = {kernel, kernel + 4096 - 8, TASK_SIZE_MAX, STRAY};
	u8 *held = areas->kernel[SIDE_DST];

	for (unsigned int i = 0; i < ARRAY_SIZE(at) && keep_on(c); i++) {
		struct attempt a = {c->variant, SIDE_DST, most_records(c->variant), 0};
		struct call call = {.dst = at[i], .count = a.count};
		const char *wrong;

		call.src = (unsigned long)areas->kernel[SIDE_SRC];
		effect_size(&a);
		memset(held, UNTOUCHED, MOST + PAGE_SIZE);
		c->cases++;
		c->faults++;
		arch_access_begin();
		c->variant->once(&call, 1);
		wrong = arch_state_wrong(c->variant, &call);
		arch_access_end();
		if (call.result)
			wrong = "records count as stored at an address of the kernel";
		if (memchr_inv(held, UNTOUCHED, MOST + PAGE_SIZE))
			wrong = "memory of the kernel is written";
		if (wrong)
			fail(c, &a, &call, wrong);
	}
}

int check_variant(const struct run *run, struct variant *variant)
{
	struct check *c = kvzalloc(sizeof(*c), GFP_KERNEL);
	int error;

	if (!c)
		return -ENOMEM;
	c->run = run;
	c->variant = variant;
	for (int side = 0; side < SIDES; side++)
		if (variant->faulting & BIT(side))
			one_side(c, side);
	if (!variant->faulting)
		one_side(c, SIDE_NONE);
	if (variant->guards && keep_on(c))
		strays(c);
	if (*c->failure)
		variant->state = BROKEN;
	else if (!run_ends(run))
		variant->state = HOLDS;
	record_open();
	record_string("record", "check");
	record_string("id", variant->id);
	record_integer("offset", variant->offset);
	record_bool("passed", variant->state == HOLDS);
	record_integer("cases", c->cases);
	record_integer("faults", c->faults);
	record_integer("over_report", c->over_report);
	record_string("failure", *c->failure		   ? c->failure
				 : READ_ONCE(run->stop)	   ? "interrupted"
				 : variant->state != HOLDS ? "the CPU went away"
							   : "");
	error = record_close();
	kvfree(c);
	return READ_ONCE(run->stop) ? -EINTR : error;
}
