/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of many bytes: around every power of two, up to more than 32 bits. */
#ifndef HARNESS_LARGE_H
#define HARNESS_LARGE_H

#include "job.h"

/* Attempt them, with buffers filled by this pattern. */
void large_run(const struct job *job, int fill);

#endif
