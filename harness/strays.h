/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls with pointers outside of user memory. */
#ifndef HARNESS_STRAYS_H
#define HARNESS_STRAYS_H

#include "job.h"

/*
 * Check a routine that checks or masks a pointer itself: with one into the kernel's half, at the
 * border, or non-canonical, nothing is accessed there, and nothing is reported as done.
 */
void strays_run(const struct job *job);

#endif
