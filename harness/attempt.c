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

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define STACK_BYTES 65536
#define FRAME 512 /* bytes of a caller's frame that must stay as they are */
#define STACKS 32 /* places at which it stands by turns */
#define STACK_ALIGN 16
#define LEFT_BEHIND 2048 /* bytes below it that hold what earlier calls may have left there */
#define ALL_EVERY 256

static const struct job *job;
static struct verdict *verdict;
static const uint8_t *code;
static struct arena code_arena, stack;
static const struct buffers *buffers;
static uint8_t frame[FRAME];
static uint8_t *top;
static const struct attempt *current;

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
					 (size_t)(uintptr_t)a->at[s] % 4096);
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

void attempt_init(const struct job *of_job, struct verdict *into)
{
	job = of_job;
	verdict = into;
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

/* Set the stack up at another place each time, with what earlier calls may have left below it. */
static void prepare_stack(void)
{
	top = stack.start + STACK_BYTES - FRAME - verdict->cases % STACKS * STACK_ALIGN;
	memcpy(top, frame, FRAME);
	memset(top - LEFT_BEHIND, 0x81 + verdict->cases % 64, LEFT_BEHIND);
}

/* A register that carries nothing holds anything, or nothing but zeros, or ones. */
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
		want = a->known ? a->known : effect_sum(a->at[SIDE_SRC], a->count, a->sum);
		if (checksum_fold(take(out, ROLE_SUM)) != want)
			attempt_fail("sum %#llx folds to %#x, not %#x",
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

		if (memcmp(at, buffers->held[SIDE_SRC] + (at - buffers->side[SIDE_SRC].start),
			   attempt->limit[SIDE_SRC]))
			attempt_fail("the source is written");
	}
	done = check_result(attempt, &out);
	verdict->cases++;
	if (!attempt->at[SIDE_DST] || attempt->stray)
		return;
	if (attempt->at[SIDE_DST] < buffers->side[SIDE_DST].start)
		buffers_check_front(buffers, job, attempt);
	else
		buffers_check(buffers, job, attempt, done);
	if (!(verdict->cases % ALL_EVERY))
		buffers_check_all(buffers);
}
