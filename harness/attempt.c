// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "attempt.h"

#include "arena.h"
#include "buffers.h"
#include "check_seal.h"
#include "common/checksum.h"
#include "effect.h"
#include "fault.h"
#include "machine.h"
#include "mix.h"

#include <string.h>

#define STACK_BYTES 65536
#define FRAME 512 /* bytes of a caller's frame that must stay as they are */
#define STACKS 32 /* places at which it stands by turns */
#define STACK_ALIGN 16
#define LEFT_BEHIND 2048 /* bytes below it that hold what earlier calls may have left there */
#define ALL_EVERY 256
#define MOST_KEPT ((1 << 20) + (1 << 17)) /* bytes of a side that a call finds arranged */

static const struct job *job;
static struct verdict *verdict;
static const uint8_t *code;
static struct arena code_arena, stack;
static const struct buffers *buffers;
static uint8_t frame[FRAME];
static uint8_t *top;
static uint8_t kept[MOST_KEPT]; /* what was arranged */

void attempt_init(const struct job *of_job, struct verdict *into)
{
	job = of_job;
	verdict = into;
	verdict_open(job, verdict);
	code = arena_code(&code_arena, job->code, job->code_size, job->offset);
	stack = arena_open(STACK_BYTES);
	for (size_t i = 0; i < FRAME; i++)
		frame[i] = 0xe0 | (i & 15); /* as an address: not canonical */
	fault_init(job, code, verdict);
	check_seal(code, job->code_size);
}

void attempt_use(const struct buffers *of)
{
	buffers = of;
}

const struct arena *attempt_side(enum side side)
{
	return &buffers->side[side];
}

uint8_t attempt_value(void)
{
	return buffers->value;
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

/* Set the stack up at another address each time, with remains of earlier calls below it. */
static void prepare_stack(void)
{
	top = stack.start + STACK_BYTES - FRAME - verdict->cases % STACKS * STACK_ALIGN;
	memcpy(top, frame, FRAME);
	memset(top - LEFT_BEHIND, 0x81 + verdict->cases % 64, LEFT_BEHIND);
}

/* A register without an input holds any bits, or only zeros, or only ones. */
static uint64_t anything(uint64_t seed)
{
	switch (verdict->cases % 8) {
	case 3:
		return 0;
	case 6:
		return ~0ull;
	default:
		return mix(seed);
	}
}

static void prepare(const struct attempt *a, struct cpu_state *in)
{
	uint64_t seed = verdict->cases * MACHINE_REGISTERS;

	prepare_stack();
	for (int i = 0; i < machine_registers; i++)
		in->gpr[i] = job->zeroed >> i & 1 ? 0 : anything(seed + i);
	in->gpr[machine_stack_pointer] = (uintptr_t)top;
	in->flags = verdict->cases & 1 ? machine_flags_all : 0;
	give(in, ROLE_DST, (uintptr_t)a->at[SIDE_DST]);
	give(in, ROLE_SRC, (uintptr_t)a->at[SIDE_SRC]);
	give(in, ROLE_COUNT, a->count);
	give(in, ROLE_SUM, a->sum);
	/* Of an int that holds a byte, only the lowest bits count. */
	give(in, ROLE_VALUE, a->value | anything(seed + ROLE_VALUE) << 8);
}

static void check_registers(const struct cpu_state *in, const struct cpu_state *out)
{
	const char *wrong;

	for (int i = 0; i < machine_registers; i++) {
		if (in->gpr[i] == out->gpr[i] || job->may_change >> i & 1)
			continue;
		if (i == machine_stack_pointer)
			verdict_fail("the stack pointer is off by %td",
				     (ptrdiff_t)(out->gpr[i] - in->gpr[i]));
		verdict_fail("register %s changed", machine_register_name(i));
	}
	wrong = machine_vector_changed();
	if (wrong)
		verdict_fail("register %s changed", wrong);
	wrong = machine_flags_wrong(in, out, job->flags_may_change);
	if (wrong)
		verdict_fail("%s", wrong);
	if (memcmp(top, frame, FRAME))
		verdict_fail("the caller's stack frame changed");
}

/* Check a count of bytes not done; returns the number of bytes that it reports as done. */
static size_t check_uncopied(const struct attempt *a, uint64_t uncopied)
{
	size_t possible = effect_possible(job, a), want = a->count - possible;

	if (uncopied < want || uncopied > a->count || (job->exact && uncopied != want))
		verdict_fail("%lld bytes said to be left, %s%zu are", (long long)uncopied,
			     job->exact ? "" : "at least ", want);
	if (possible && uncopied == a->count)
		verdict_fail("no progress, though %zu bytes can be accessed", possible);
	if (uncopied - want > verdict->over_report)
		verdict->over_report = uncopied - want;
	return a->count - uncopied;
}

static size_t check_stored(const struct attempt *a, uint64_t stored)
{
	size_t possible = effect_possible(job, a);

	if (stored > possible || (job->exact && stored != possible))
		verdict_fail("%lld records said to be stored, %s%zu can be", (long long)stored,
			     job->exact ? "" : "at most ", possible);
	if ((possible - stored) * job->record[SIDE_DST] > verdict->over_report)
		verdict->over_report = (possible - stored) * job->record[SIDE_DST];
	return stored * job->record[SIDE_DST];
}

static void check_order(const struct attempt *a, const struct cpu_state *out)
{
	int64_t given = job->out[ROLE_ORDER].bits == 64 ? (int64_t)take(out, ROLE_ORDER)
							: (int32_t)take(out, ROLE_ORDER);
	int want = effect_order(a);

	if ((given > 0) - (given < 0) != want)
		verdict_fail(
		    "%lld is returned, and the sign of the first difference, byte %zu, is %d",
		    (long long)given, a->differ, want);
}

static void check_found(const struct attempt *a, const struct cpu_state *out)
{
	bool found = a->match != ATTEMPT_NOWHERE;
	size_t length = found ? a->match : a->count;

	if (job->out[ROLE_LENGTH].bits && take(out, ROLE_LENGTH) != length)
		verdict_fail("length %lld is returned, not %zu", (long long)take(out, ROLE_LENGTH),
			     length);
	if (job->out[ROLE_FOUND].bits &&
	    take(out, ROLE_FOUND) != (found ? (uintptr_t)a->at[SIDE_SRC] + a->match : 0))
		verdict_fail("%#llx is returned, and the value is %s %zu",
			     (unsigned long long)take(out, ROLE_FOUND),
			     found ? "at byte" : "nowhere in", length);
}

/* Check a reported fault against the accessible bytes; returns true if other results count. */
static bool check_faulted(const struct attempt *a, const struct cpu_state *out)
{
	bool want = effect_faults(job, a);

	if (!job->out[ROLE_FAULTED].bits || !take(out, ROLE_FAULTED) == !want)
		return !want;
	verdict_fail(want ? "no fault is reported, and a byte that is needed cannot be accessed"
			  : "a fault is reported, and all that is needed can be accessed");
}

/* Check the result; returns the bytes that must be at the destination now. */
static size_t check_result(const struct attempt *a, const struct cpu_state *out)
{
	uint32_t want;

	if (job->out[ROLE_DST].bits && take(out, ROLE_DST) != (uintptr_t)a->at[SIDE_DST])
		verdict_fail("%#llx is returned, not dst", (unsigned long long)take(out, ROLE_DST));
	switch (job->effect) {
	case EFFECT_COMPARE:
		if (check_faulted(a, out))
			check_order(a, out);
		return 0;
	case EFFECT_SCAN:
		if (check_faulted(a, out))
			check_found(a, out);
		return 0;
	case EFFECT_CHECKSUM:
		want = a->known ? a->known : effect_sum(a->at[SIDE_SRC], a->count, a->sum);
		if (checksum_fold(take(out, ROLE_SUM)) != want)
			verdict_fail("sum %#llx folds to %#x, not %#x",
				     (unsigned long long)take(out, ROLE_SUM),
				     checksum_fold(take(out, ROLE_SUM)), want);
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

/* Bytes arranged for a call, which it has to leave unchanged. */
struct arranged {
	enum side side;
	uint8_t *from;
	size_t size;
};

static struct arranged arrange(struct attempt *a)
{
	enum side side = job->effect == EFFECT_COMPARE ? SIDE_DST : SIDE_SRC;
	const struct arena *arena = &buffers->side[side];
	uint8_t *at = a->at[side];
	bool there = a->limit[side] >= a->bytes[side];
	size_t held = there ? a->bytes[side] : a->limit[side];
	size_t before = at - arena->start, behind = there ? arena->size - before - held : 0;

	if (side == SIDE_DST || before > EFFECT_AROUND)
		before = side == SIDE_DST ? 0 : EFFECT_AROUND;
	if (side == SIDE_DST || behind > EFFECT_AROUND)
		behind = side == SIDE_DST ? 0 : EFFECT_AROUND;
	effect_arrange(job, a, before, behind);
	memcpy(kept, at - before, before + held + behind);
	return (struct arranged){side, at - before, before + held + behind};
}

/* Check that the arranged bytes are unchanged, and restore them. */
static void check_arranged(const struct attempt *a, const struct arranged *arranged)
{
	const struct arena *arena = &buffers->side[arranged->side];

	for (size_t i = 0; memcmp(arranged->from, kept, arranged->size); i++)
		if (arranged->from[i] != kept[i])
			verdict_fail("%s byte %td is written",
				     arranged->side == SIDE_DST ? "dst" : "src",
				     arranged->from + i - a->at[arranged->side]);
	memcpy(arranged->from, buffers->held[arranged->side] + (arranged->from - arena->start),
	       arranged->size);
}

void attempt_run(struct attempt *attempt)
{
	bool arranges = job->effect == EFFECT_COMPARE || job->effect == EFFECT_SCAN;
	struct arranged arranged;
	struct cpu_state in, out;
	size_t done;

	verdict_on(attempt);
	attempt->source = attempt->at[SIDE_SRC];
	if (attempt->overlapped)
		attempt->source = buffers->held[SIDE_DST] +
				  (attempt->at[SIDE_SRC] - buffers->side[SIDE_DST].start);
	if (arranges)
		arranged = arrange(attempt);
	prepare(attempt, &in);
	fault_expect(attempt, buffers->side);
	machine_call(&in, &out, (uintptr_t)code + job->entry);
	fault_expect(NULL, NULL);
	if (fault_left_open())
		verdict_fail("user access is left open: a stac without a clac");
	check_registers(&in, &out);
	if (attempt->at[SIDE_SRC] && !attempt->overlapped && job->effect != EFFECT_SCAN) {
		const uint8_t *at = attempt->at[SIDE_SRC];

		if (memcmp(at, buffers->held[SIDE_SRC] + (at - buffers->side[SIDE_SRC].start),
			   attempt->limit[SIDE_SRC]))
			verdict_fail("the source is written");
	}
	done = check_result(attempt, &out);
	verdict->cases++;
	if (arranges)
		check_arranged(attempt, &arranged);
	if (!attempt->at[SIDE_DST] || attempt->stray)
		return;
	if (job->effect == EFFECT_COMPARE)
		buffers_check_around(buffers, attempt);
	else if (effect_is_backward(job, attempt))
		buffers_check_back(buffers, job, attempt, done);
	else if (attempt->at[SIDE_DST] < buffers->side[SIDE_DST].start)
		buffers_check_front(buffers, job, attempt);
	else
		buffers_check(buffers, job, attempt, done);
	if (!(verdict->cases % ALL_EVERY))
		buffers_check_all(buffers);
}
