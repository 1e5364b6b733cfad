/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two stages of a kit's run: check variants against their contracts, measure those that pass.
 */
#ifndef HARNESS_KIT_TURNS_H
#define HARNESS_KIT_TURNS_H

#include "results.h"

#include <signal.h>

#define PROCESSES 3 /* that must each accept a point */

/* Set by a signal: both stages end soon, and leave complete lines. */
extern volatile sig_atomic_t turns_stop;

/* Check the variants without a verdict, as many at a time as there are CPUs. */
void turns_check(struct results *results, const char *only);

/* True if every check of a job to measure has passed. */
bool turns_sound(const struct results *results, const struct job *job);

/* Return the points to measure, and the readings that they lack of PROCESSES each. */
struct plan turns_plan(const struct results *results, const char *only);

/*
 * Have a worker, a process of self, measure a list of jobs and points; told is called as results
 * arrive. Returns 0, or -1 if that process failed.
 */
int turns_work(struct results *results, const uint32_t (*list)[2], size_t count, const char *self,
	       const char *jobs, void (*told)(const struct results *results));

/*
 * Measure every point that lacks readings once, in random order, in a separate process: self runs
 * as a worker. Returns 0, or -1 if that process failed.
 */
int turns_measure(struct results *results, const char *only, const char *self, const char *jobs);

#endif
