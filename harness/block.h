/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Measure a block of untrusted code. */
#ifndef HARNESS_BLOCK_H
#define HARNESS_BLOCK_H

#include "job.h"
#include "meter.h"

/* Run a job's block in a sealed process of its own, and measure it; prints a line of JSON. */
void block_job(const struct job *job, struct meter *meter);

#endif
