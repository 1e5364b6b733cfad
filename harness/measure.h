/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Measure calls of a routine. */
#ifndef HARNESS_MEASURE_H
#define HARNESS_MEASURE_H

#include "job.h"
#include "meter.h"

/* Measure one point of a job in a process of its own; prints a line of JSON. */
void measure_point(const struct job *job, size_t point, struct meter *meter);

/* Measure every point of a job. */
void measure_job(const struct job *job, struct meter *meter);

#endif
