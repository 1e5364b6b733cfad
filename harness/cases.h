/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sizes, placements and faults that a routine is tried with. */
#ifndef HARNESS_CASES_H
#define HARNESS_CASES_H

#include "job.h"

/* Attempt every case of a job; ends the process at the first failure. */
void cases_run(const struct job *job);

#endif
