/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals that code under test raises, handled as the kernel's fault handler would. */
#ifndef HARNESS_FAULT_H
#define HARNESS_FAULT_H

#include "verdict.h"

struct arena;

/*
 * Catch signals on a stack of their own. A fault at an instruction that the exception table of
 * the job (its code at base) names, at a byte that the current attempt may not access, goes on at
 * the fixup; anything else fails the attempt. So does an attempt that takes a second of CPU.
 */
void fault_init(const struct job *job, const uint8_t *base, struct verdict *verdict);

/*
 * Expect faults of this attempt only, in the memory of its two sides; NULL: none. Access to user
 * memory starts closed.
 */
void fault_expect(const struct attempt *attempt, const struct arena *sides);

/* Say whether the attempt opened the access to user memory (stac) and did not close it. */
bool fault_left_open(void);

#endif
