/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One call of a routine under test, with all checks of it. */
#ifndef HARNESS_ATTEMPT_H
#define HARNESS_ATTEMPT_H

#include "verdict.h"

struct buffers;
struct arena;

/* Prepare to attempt a job; call once a process. */
void attempt_init(const struct job *job, struct verdict *verdict);

/* From now on place both sides of attempts here. */
void attempt_use(const struct buffers *buffers);
const struct arena *attempt_side(enum side side);
uint8_t attempt_value(void); /* that this memory is made for a search of */

void attempt_run(struct attempt *attempt);

#endif
