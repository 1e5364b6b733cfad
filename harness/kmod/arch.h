/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What differs between the architectures. */
#ifndef LOOPWRIGHT_ARCH_H
#define LOOPWRIGHT_ARCH_H

#include "kmod.h"

struct perf_event;

extern const char arch_isa[];
extern const char arch_timer_name[];

/* Whether an emulator runs this: what it takes says nothing of the CPU. */
bool arch_emulated(void);

/* Ticks a second of the constant-rate counter; 0 and why where there is none to trust. */
u64 arch_timer_open(const char **why);

/* Read a count, ordered against the code before and behind. */
u64 arch_timer_read(void);
u64 arch_pmu_read(const struct perf_event *event);

/* Whether arch_pmu_read() reads this event, on this CPU, now. */
bool arch_pmu_readable(const struct perf_event *event);

/* Open and close user memory around calls, as far as routines and their callers leave it to C. */
void arch_access_begin(void);
void arch_access_end(void);

/* What is wrong with the state in which a routine returned, or NULL. Call it right behind once().
 */
const char *arch_state_wrong(const struct variant *variant, const struct call *call);

/* Members of a record that say what guards user memory, and what returns cost. */
void arch_describe(void);

#endif
