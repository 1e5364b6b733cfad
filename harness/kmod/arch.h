/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts that differ between architectures. */
#ifndef LOOPWRIGHT_ARCH_H
#define LOOPWRIGHT_ARCH_H

#include "kmod.h"

struct perf_event;

extern const char arch_isa[];
extern const char arch_timer_name[];

/* True if an emulator runs this: its times are no measure of the CPU. */
bool arch_emulated(void);

/*
 * Ticks a second of the constant-rate counter; 0 with the reason in why if there is no reliable
 * one.
 */
u64 arch_timer_open(const char **why);

/* Read a count, ordered with the code before and after. */
u64 arch_timer_read(void);
u64 arch_pmu_read(const struct perf_event *event);

/* True if arch_pmu_read() reads this event, on this CPU, now. */
bool arch_pmu_readable(const struct perf_event *event);

/* Open and close user memory around calls, where routines and their callers do not. */
void arch_access_begin(void);
void arch_access_end(void);

/* The error in the state in which a routine returned, or NULL. Call it right after once(). */
const char *arch_state_wrong(const struct variant *variant, const struct call *call);

/* Members of a record on the protection of user memory and the mitigations of returns. */
void arch_describe(void);

#endif
