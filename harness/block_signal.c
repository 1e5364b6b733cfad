// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "block_signal.h"

#include "block_machine.h"
#include "block_memory.h"
#include "machine.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define STACK (1 << 17)

static uintptr_t code, entry;
static size_t code_bytes;
static struct block_end end;
static double seconds_allowed;
static bool lenient;
static volatile bool overflowed, misaligned;

static _Noreturn void give_up(const char *what, uintptr_t at)
{
	if (at)
		snprintf(end.why, end.size, "%s (%#lx)", what, (unsigned long)at);
	else
		snprintf(end.why, end.size, "%s", what);
	_exit(0);
}

static bool in_code(uintptr_t address)
{
	return address >= code && address < code + code_bytes;
}

/* A missing page, as opposed to an invalid address or one without permission. */
static bool is_page_fault(const siginfo_t *info)
{
	return info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;
}

static void map_or_leave(uintptr_t address, ucontext_t *context)
{
	const char *why;

	if (lenient && block_memory_pages() == BLOCK_DISTINCT) {
		overflowed = true;
		machine_set_pc(context, (uintptr_t)block_leave);
		return;
	}
	why = block_memory_map(address);
	if (why)
		give_up(why, address);
}

void block_signal(int number, siginfo_t *info, void *context)
{
	uintptr_t pc = machine_pc(context), address = (uintptr_t)info->si_addr;

	*end.stopped = pc - entry;
	if (number == SIGSYS)
		give_up("makes a system call", 0);
	if (number == SIGVTALRM) {
		snprintf(end.why, end.size, "does not end within %g s", seconds_allowed);
		_exit(0);
	}
	if ((number == SIGBUS || (number == SIGSEGV && !is_page_fault(info))) &&
	    block_frame.flags & block_flags_aligned) {
		misaligned = true;
		machine_set_pc(context, (uintptr_t)block_leave);
		return;
	}
	if (!in_code(pc))
		give_up("jumps away", 0);
	switch (number) {
	case SIGILL:
		give_up("illegal or privileged instruction", 0);
	case SIGFPE:
		give_up("arithmetic exception", 0);
	case SIGTRAP:
		give_up("trap", 0);
	case SIGBUS:
		give_up("misaligned access, or a stack outside of the address space", 0);
	}
	if (!is_page_fault(info))
		give_up("privileged instruction, or an access outside of the address space", 0);
	if (in_code(address))
		give_up("writes to its own code", 0);
	if (info->si_code == SEGV_ACCERR)
		give_up("touches memory that is not to be had", address);
	map_or_leave(address, context);
}

void block_signal_open(const uint8_t *start, size_t bytes, const uint8_t *at,
		       const struct block_end *of)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGVTALRM};
	struct sigaction action = {.sa_sigaction = block_on_signal,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK};
	stack_t stack = {.ss_size = STACK};

	code = (uintptr_t)start;
	code_bytes = bytes;
	entry = (uintptr_t)at;
	end = *of;
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	sigfillset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
}

void block_signal_within(double seconds)
{
	struct itimerval once = {.it_value = {(time_t)seconds, fmod(seconds, 1) * 1e6}};

	seconds_allowed = seconds;
	setitimer(ITIMER_VIRTUAL, &once, NULL);
}

void block_signal_lenient(bool is_lenient)
{
	lenient = is_lenient;
	overflowed = false;
}

bool block_signal_overflowed(void)
{
	return overflowed;
}

bool block_signal_misaligned(void)
{
	return misaligned;
}
