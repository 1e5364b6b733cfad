// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "attempt.h"

#include "arena.h"
#include "effect.h"
#include "fault.h"
#include "machine.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define SIDE_BYTES 16384
#define STACK_BYTES 65536
#define FRAME 512 /* bytes of a caller's frame that must stay as they are */
#define ZONE 128  /* bytes looked at on each side of the destination after each attempt */
#define ALL_EVERY 256

static const struct job *job;
static struct verdict *verdict;
static const uint8_t *code;
static struct arena code_arena, stack, side[SIDES];
static uint8_t pristine[SIDES][SIDE_BYTES], frame[FRAME];
static uint8_t *top;
static const struct attempt *current;

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Write what the current case is, e.g. "size 64, dst +3, src +0, dst ends after 12". */
static void describe(char *text, size_t size)
{
	static const char *const names[] = {"dst", "src"};
	const struct attempt *a = current;
	int used = snprintf(text, size, "%s %zu",
			    job->effect == EFFECT_STORE_FIELDS ? "records" : "size", a->count);

	for (int s = 0; s < SIDES; s++)
		if (a->at[s])
			used += snprintf(text + used, size - used, ", %s +%zu", names[s],
					 (size_t)(a->at[s] - side[s].start) % 4096);
	for (int s = 0; s < SIDES; s++)
		if (a->at[s] && a->limit[s] < a->bytes[s])
			used += snprintf(text + used, size - used, ", %s faults at byte %zu",
					 names[s], a->limit[s]);
}

void attempt_fail(const char *format, ...)
{
	char what[200], where[110];
	va_list values;

	va_start(values, format);
	vsnprintf(what, sizeof(what), format, values);
	va_end(values);
	describe(where, sizeof(where));
	snprintf(verdict->failure, sizeof(verdict->failure), "%s (%s)", what, where);
	_exit(0);
}

int attempt_fills(const struct job *of_job)
{
	return of_job->effect == EFFECT_CHECKSUM ? 3 : 1;
}

/*
 * Source bytes are below 0x80 and what the destination held is above, so that each byte shows
 * where it came from. Sums see all byte values, then only ones, then only zeros.
 */
void attempt_fill(int fill)
{
	for (size_t i = 0; i < SIDE_BYTES; i++) {
		uint8_t random = mix(i);

		pristine[SIDE_DST][i] = random | 0x80;
		pristine[SIDE_SRC][i] = job->effect != EFFECT_CHECKSUM
					    ? (random >> 1) + (random < 2)
					: fill == 0 ? random
					: fill == 1 ? 0xff
						    : 0;
	}
	for (int s = 0; s < SIDES; s++)
		memcpy(side[s].start, pristine[s], SIDE_BYTES);
}

void attempt_init(const struct job *of_job, struct verdict *into)
{
	job = of_job;
	verdict = into;
	code = arena_code(&code_arena, job->code, job->code_size, job->offset);
	for (int s = 0; s < SIDES; s++)
		side[s] = arena_open(SIDE_BYTES);
	stack = arena_open(STACK_BYTES);
	top = stack.start + STACK_BYTES - FRAME;
	for (size_t i = 0; i < FRAME; i++)
		frame[i] = 0xe0 | (i & 15); /* as an address: not canonical */
	memcpy(top, frame, FRAME);
	fault_init(job, code, verdict);
}

const struct arena *attempt_side(enum side of_side)
{
	return &side[of_side];
}

static void give(struct cpu_state *in, enum role role, uint64_t value)
{
	const struct operand *op = &job->in[role];

	if (op->bits == 64)
		in->gpr[op->index] = value;
	else if (op->bits == 32)
		in->gpr[op->index] = (in->gpr[op->index] & ~0xffffffffull) | (uint32_t)value;
}

static uint64_t take(const struct cpu_state *out, enum role role)
{
	const struct operand *op = &job->out[role];

	return op->bits == 64 ? out->gpr[op->index] : (uint32_t)out->gpr[op->index];
}

static void prepare(const struct attempt *a, struct cpu_state *in)
{
	uint64_t seed = verdict->cases * MACHINE_REGISTERS;

	for (int i = 0; i < machine_registers; i++)
		in->gpr[i] = job->zeroed >> i & 1 ? 0 : mix(seed + i);
	in->gpr[machine_stack_pointer] = (uintptr_t)top;
	in->flags = verdict->cases & 1 ? machine_flags_all : 0;
	give(in, ROLE_DST, (uintptr_t)a->at[SIDE_DST]);
	give(in, ROLE_SRC, (uintptr_t)a->at[SIDE_SRC]);
	give(in, ROLE_COUNT, a->count);
	give(in, ROLE_SUM, a->sum);
}

static void check_registers(const struct cpu_state *in, const struct cpu_state *out)
{
	const char *wrong;

	for (int i = 0; i < machine_registers; i++) {
		if (in->gpr[i] == out->gpr[i] || job->may_change >> i & 1)
			continue;
		if (i == machine_stack_pointer)
			attempt_fail("the stack pointer is off by %td",
				     (ptrdiff_t)(out->gpr[i] - in->gpr[i]));
		attempt_fail("register %s changed", machine_register_name(i));
	}
	wrong = machine_vector_changed();
	if (wrong)
		attempt_fail("register %s changed", wrong);
	wrong = machine_flags_wrong(in, out, job->flags_may_change);
	if (wrong)
		attempt_fail("%s", wrong);
	if (memcmp(top, frame, FRAME))
		attempt_fail("the caller's stack frame changed");
}

/* Check a count of bytes not done; returns how many bytes it claims to be done. */
static size_t check_uncopied(const struct attempt *a, uint64_t uncopied)
{
	size_t possible = effect_possible(job, a), want = a->count - possible;

	if (uncopied < want || uncopied > a->count || (job->exact && uncopied != want))
		attempt_fail("%lld bytes said to be left, %s%zu are", (long long)uncopied,
			     job->exact ? "" : "at least ", want);
	if (possible && uncopied == a->count)
		attempt_fail("no progress, though %zu bytes can be accessed", possible);
	if (uncopied - want > verdict->over_report)
		verdict->over_report = uncopied - want;
	return a->count - uncopied;
}

static size_t check_stored(const struct attempt *a, uint64_t stored)
{
	size_t possible = effect_possible(job, a);

	if (stored > possible || (job->exact && stored != possible))
		attempt_fail("%lld records said to be stored, %s%zu can be", (long long)stored,
			     job->exact ? "" : "at most ", possible);
	if ((possible - stored) * job->record[SIDE_DST] > verdict->over_report)
		verdict->over_report = (possible - stored) * job->record[SIDE_DST];
	return stored * job->record[SIDE_DST];
}

/* Check the result; returns the bytes that must be at the destination now. */
static size_t check_result(const struct attempt *a, const struct cpu_state *out)
{
	uint32_t want;

	switch (job->effect) {
	case EFFECT_CHECKSUM:
		want = effect_sum(a->at[SIDE_SRC], a->count, a->sum);
		if (take(out, ROLE_SUM) % 0xffff != want)
			attempt_fail("sum %#llx, not %#x mod 0xffff",
				     (unsigned long long)take(out, ROLE_SUM), want);
		return 0;
	case EFFECT_STORE_FIELDS:
		if (!job->out[ROLE_STORED].bits)
			return a->bytes[SIDE_DST];
		return check_stored(a, take(out, ROLE_STORED));
	default:
		if (!job->out[ROLE_UNCOPIED].bits)
			return a->bytes[SIDE_DST];
		return check_uncopied(a, take(out, ROLE_UNCOPIED));
	}
}

static void check_outside(const uint8_t *from, const uint8_t *to, ptrdiff_t ahead)
{
	const uint8_t *old = pristine[SIDE_DST] + (from - side[SIDE_DST].start);

	if (!memcmp(from, old, to - from))
		return;
	for (ptrdiff_t i = 0; i < to - from; i++)
		if (from[i] != old[i])
			attempt_fail("dst byte %td is written, outside the destination", ahead + i);
}

/*
 * Check that the first done bytes are as they must be and that the rest is either that or as it
 * was, then make the destination as it was.
 */
static void check_destination(const struct attempt *a, size_t done)
{
	const struct arena *arena = &side[SIDE_DST];
	uint8_t *at = a->at[SIDE_DST], *end = at + a->bytes[SIDE_DST];
	uint8_t *old = pristine[SIDE_DST] + (at - arena->start);
	uint8_t *low = at - arena->start > ZONE ? at - ZONE : arena->start;
	uint8_t *limit = at + a->limit[SIDE_DST];
	uint8_t *last = arena->start + arena->size;
	uint8_t *high = last - end > ZONE ? end + ZONE : last;
	struct image image = effect_image(job, a);

	check_outside(low, at, low - at);
	if (end < high)
		check_outside(end, high, end - at);
	if (!image.covered && memcmp(at, image.bytes, done)) {
		size_t i = 0;

		while (at[i] == image.bytes[i])
			i++;
		attempt_fail("dst byte %zu is %#x, not %#x", i, at[i], image.bytes[i]);
	}
	for (size_t i = image.covered ? 0 : done; at + i < limit; i++) {
		bool covered = i < image.known && (!image.covered || image.covered[i]);

		if (covered && at[i] == image.bytes[i])
			continue;
		if (covered && i < done)
			attempt_fail("dst byte %zu is %#x, not %#x", i, at[i], image.bytes[i]);
		if (at[i] != old[i])
			attempt_fail("dst byte %zu is %#x: %s", i, at[i],
				     covered	     ? "neither old nor new"
				     : image.covered ? "it is in no field that can be stored"
						     : "the source there cannot be read");
	}
	memcpy(low, pristine[SIDE_DST] + (low - arena->start), (limit < end ? limit : high) - low);
}

void attempt_check_all(void)
{
	for (int s = 0; s < SIDES; s++)
		if (memcmp(side[s].start, pristine[s], SIDE_BYTES))
			attempt_fail("%s is written, in this case or one of the %d before",
				     s == SIDE_SRC ? "the source"
						   : "memory far from the destination",
				     ALL_EVERY);
}

void attempt_run(const struct attempt *attempt)
{
	struct cpu_state in, out;
	size_t done;

	current = attempt;
	prepare(attempt, &in);
	fault_expect(attempt);
	machine_call(&in, &out, (uintptr_t)code + job->entry);
	fault_expect(NULL);
	if (fault_left_open())
		attempt_fail("user access is left open: a stac without a clac");
	check_registers(&in, &out);
	if (attempt->at[SIDE_SRC]) {
		const uint8_t *at = attempt->at[SIDE_SRC];

		if (memcmp(at, pristine[SIDE_SRC] + (at - side[SIDE_SRC].start),
			   attempt->limit[SIDE_SRC]))
			attempt_fail("the source is written");
	}
	done = check_result(attempt, &out);
	if (attempt->at[SIDE_DST])
		check_destination(attempt, done);
	if (!(++verdict->cases % ALL_EVERY))
		attempt_check_all();
}
