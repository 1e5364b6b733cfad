/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Measure calls of a routine. */
#ifndef HARNESS_MEASURE_H
#define HARNESS_MEASURE_H

#include "job.h"
#include "meter.h"

#define MEASURE_POINTS 32 /* that are measured by turns */

/* A point of a job. */
struct task {
	const struct job *job;
	size_t point;
};

/*
 * Measure so many points, at most MEASURE_POINTS, in separate processes; prints a line of JSON for
 * each. Their samples are taken in turns, so that a slowly changing speed is visible in a reading.
 */
void measure_points(const struct task *tasks, size_t count, struct meter *meter);

#endif
