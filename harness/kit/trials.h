/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A calibration's trials: blocks, each measured once in a sealed process of its own. */
#ifndef HARNESS_KIT_TRIALS_H
#define HARNESS_KIT_TRIALS_H

#include "results.h"

/* Trials of a file of jobs, and those of them that still have no answer. */
struct plan trials_plan(const struct results *results);

/*
 * Measure the trials that have no answer in their order, some hundreds in a process: self runs as a
 * worker. What was disturbed is tried again, twice. Returns 0, or -1 where a process failed.
 */
int trials_measure(struct results *results, const char *self, const char *jobs);

#endif
