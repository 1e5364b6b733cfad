/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Measure calls of a routine. */
#ifndef HARNESS_MEASURE_H
#define HARNESS_MEASURE_H

#include "job.h"
#include "meter.h"

/* Measure every point of a job, each in a process of its own; a line of JSON for each. */
void measure_job(const struct job *job, const struct meter *meter);

#endif
