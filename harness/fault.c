// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "fault.h"

#include "arena.h"
#include "machine.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define MOST_FAULTS 4096 /* by one attempt */
#define TICK_US 100000
#define MOST_TICKS 10

static const struct job *job;
static const uint8_t *code;
static struct verdict *verdict;
static const struct attempt *volatile expected;
static const struct arena *sides;
static uint64_t faults, faulting_case;
static volatile bool access_open;

static const char *signal_name(int number)
{
	switch (number) {
	case SIGSEGV:
		return "fault";
	case SIGBUS:
		return "bus error";
	case SIGILL:
		return "illegal instruction";
	case SIGFPE:
		return "arithmetic exception";
	default:
		return "trap";
	}
}

/* Write an address in terms of the attempt, e.g. "dst byte 12". */
static void name_address(char *text, size_t size, uintptr_t address)
{
	static const char *const names[] = {"dst", "src"};

	for (int side = 0; side < SIDES; side++) {
		if (!expected->at[side] || !arena_holds(&sides[side], address))
			continue;
		snprintf(text, size, "%s byte %td of %zu", names[side],
			 (const uint8_t *)address - expected->at[side], expected->bytes[side]);
		return;
	}
	snprintf(text, size, "address %#lx, in neither buffer", (unsigned long)address);
}

/*
 * True if the target of a stray pointer was not accessed; a fault at a non-canonical pointer has no
 * address.
 */
static bool beside_stray(uintptr_t address, const siginfo_t *info)
{
	uintptr_t from = (uintptr_t)expected->at[SIDE_DST];
	bool there = address - from < expected->bytes[SIDE_DST];

	return info->si_code != SI_KERNEL && (!there || address < STRAY_BORDER);
}

/* True if an attempt may fault at an address of a side: it is inaccessible. */
static bool may_fault(enum side side, uintptr_t address)
{
	enum side memory = expected->overlapped ? SIDE_DST : side;
	size_t at = address - (uintptr_t)expected->at[side];

	if (!expected->at[side] || !arena_holds(&sides[memory], address))
		return false;
	if (side == SIDE_SRC && at >= expected->bytes[side])
		return at < expected->bytes[side] + job->overread;
	return job->faulting[side] && at < expected->bytes[side] &&
	       (at >= expected->limit[side] || at < expected->front[side]);
}

static bool allowed(uintptr_t address)
{
	return may_fault(SIDE_DST, address) || may_fault(SIDE_SRC, address);
}

static void count_fault(uintptr_t at)
{
	if (faulting_case != verdict->cases) {
		faulting_case = verdict->cases;
		faults = 0;
	}
	if (++faults > MOST_FAULTS)
		verdict_fail("faults without end, last at +%#zx", (size_t)at);
}

/* Emulate an instruction that opens or closes the access to user memory. */
static bool pass_gate(ucontext_t *context, uintptr_t at)
{
	int gate = job->gated ? machine_gate(code + at, job->code_size - at) : 0;

	if (!gate)
		return false;
	access_open = gate > 0;
	machine_set_pc(context, (uintptr_t)code + at + MACHINE_GATE_BYTES);
	return true;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = machine_pc(context), at = pc - (uintptr_t)code;
	uintptr_t address = (uintptr_t)info->si_addr;
	char place[96];

	if (!expected) {
		signal(number, SIG_DFL);
		return;
	}
	if (number == SIGSYS)
		verdict_fail("+%#zx makes a system call", (size_t)at);
	if (at >= job->code_size) {
		verdict_fail("%s at %#lx, outside the variant's code", signal_name(number),
			     (unsigned long)pc);
	}
	if (number == SIGILL && pass_gate(context, at))
		return;
	if (number != SIGSEGV)
		verdict_fail("%s at +%#zx", signal_name(number), (size_t)at);
	name_address(place, sizeof(place), address);
	for (size_t i = 0; i < job->entries; i++) {
		if (job->table[i].insn != at)
			continue;
		if (expected->stray && !beside_stray(address, info))
			verdict_fail("+%#zx accesses dst, %p, which is no user's", at,
				     (void *)expected->at[SIDE_DST]);
		if (!expected->stray && !allowed(address))
			verdict_fail("+%#zx accesses %s, where it may not", (size_t)at, place);
		if (job->gated && !access_open)
			verdict_fail("+%#zx accesses %s, but not between stac and clac", (size_t)at,
				     place);
		count_fault(at);
		verdict->hits[i]++;
		machine_set_pc(context, (uintptr_t)code + job->table[i].fixup);
		return;
	}
	verdict_fail("fault at +%#zx, which has no exception-table entry, at %s", (size_t)at,
		     place);
}

static void on_tick(int number)
{
	static uint64_t last;
	static int ticks;

	(void)number;
	if (last != verdict->cases || !expected) {
		last = verdict->cases;
		ticks = 0;
	} else if (++ticks >= MOST_TICKS) {
		verdict_fail("does not return within a second of CPU time");
	}
}

void fault_init(const struct job *of_job, const uint8_t *base, struct verdict *into)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval every = {{0, TICK_US}, {0, TICK_US}};
	stack_t stack = {.ss_size = 1 << 18};

	job = of_job;
	code = base;
	verdict = into;
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
	sigaction(SIGVTALRM, &tick, NULL);
	setitimer(ITIMER_VIRTUAL, &every, NULL);
}

void fault_expect(const struct attempt *attempt, const struct arena *of)
{
	sides = of;
	if (attempt)
		access_open = false;
	expected = attempt;
}

bool fault_left_open(void)
{
	return access_open;
}
