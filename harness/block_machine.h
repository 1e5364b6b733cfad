/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of running blocks that differs between ISAs: code that sets every register, runs copies
 * of a block, and returns whatever the block did to the registers.
 */
#ifndef HARNESS_BLOCK_MACHINE_H
#define HARNESS_BLOCK_MACHINE_H

#include "job.h"

#include <signal.h>
#include <ucontext.h>

/* Registers hold pointers: register n holds this plus n steps, each in its own page and line. */
#define BLOCK_POINTER 0x20000000u
/* The value of each 64-bit word of memory: it is a pointer, too. */
#define BLOCK_MEMORY 0x21000840ull
/* The thread pointer (x86-64: fs and gs) while a block runs. */
#define BLOCK_THREAD 0x22000c00ul

#define BLOCK_GLUE 1024 /* room for the code before and behind the copies */

/* Memory of the harness for the code around the copies; the block has no pointer to it. */
struct block_frame {
	uint64_t flags; /* at the start of every repetition */
	uint64_t repetitions;
	uint64_t counter; /* what the counter of a loop starts with */
	uintptr_t entry;
};
extern struct block_frame block_frame;

/*
 * The steps between pointers, tried in turn: the first spreads them over the banks of the cache;
 * the second, or 0, aligns them to lines, for a block whose accesses are misaligned with the first.
 */
enum { BLOCK_STEPS = 2 };
extern const uint32_t block_steps[BLOCK_STEPS];

/* Prepare the vector registers' values; -1 with the reason in why if this CPU lacks a feature. */
int block_machine_init(char *why, size_t size);

/*
 * Write code that sets all registers, a step apart or as the job says, runs so many copies of the
 * job's code, the entry of the first one at its offset after a 64-byte boundary of into, jumps back
 * to the start while repetitions are left, and ends at block_leave. Returns the position of that
 * entry, in bytes from the start.
 */
size_t block_emit(uint8_t *into, const struct job *job, size_t copies, uint32_t step);

/* The position of the job's code after so many bytes, with its entry at the job's offset. */
static inline size_t block_first(size_t used, const struct job *job)
{
	return (used + 63) / 64 * 64 + (job->offset - job->entry) % 64;
}

/* The initial value of a register other than the counter. */
static inline uint64_t block_value(const struct job *job, int reg, uint32_t step)
{
	return job->set >> reg & 1 ? job->value[reg] : BLOCK_POINTER + (uint64_t)reg * step;
}

/* Run the code at the frame's entry so many times. */
void block_call(uint64_t repetitions);

/* Code that returns from block_call: a signal handler sends a block here to stop it. */
void block_leave(void);

/* The handler of signals: calls block_signal on the harness's own thread pointer. */
void block_on_signal(int number, siginfo_t *info, void *context);
void block_signal(int number, siginfo_t *info, void *context);

/* Flags by which the CPU refuses misaligned accesses; 0 where user space cannot ask for that. */
extern const uint64_t block_flags_aligned;

/* True if the code has an instruction for system calls; false where that cannot be decided. */
bool block_calls_system(const uint8_t *code, size_t size);

/* System calls, besides those of every ISA, that the code here makes; ends with -1. */
extern const int block_system_calls[];
extern const uint32_t block_audit_arch;

#endif
