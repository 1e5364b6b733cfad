/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums of more bytes than there are: the same ones are mapped again and again. */
#ifndef HARNESS_ENDLESS_H
#define HARNESS_ENDLESS_H

#include "job.h"

void endless_run(const struct job *job, int fill);

#endif
