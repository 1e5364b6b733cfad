/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A calibration's trials: blocks, each measured once in a sealed process of its own. */
#ifndef HARNESS_KIT_TRIALS_H
#define HARNESS_KIT_TRIALS_H

#include "results.h"

/* Count the trials of a file of jobs, and those without an answer. */
struct plan trials_plan(const struct results *results);

/*
 * Measure the trials without an answer in their order, some hundreds in a process: self runs as a
 * worker. Disturbed ones are repeated up to twice. Returns 0, or -1 if a process failed.
 */
int trials_measure(struct results *results, const char *self, const char *jobs);

#endif
