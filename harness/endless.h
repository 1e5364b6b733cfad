/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums of more bytes than there is memory: the same pages are mapped repeatedly. */
#ifndef HARNESS_ENDLESS_H
#define HARNESS_ENDLESS_H

#include "job.h"

void endless_run(const struct job *job, int fill);

#endif
