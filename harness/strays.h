/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls with pointers that are none of a user's. */
#ifndef HARNESS_STRAYS_H
#define HARNESS_STRAYS_H

#include "job.h"

/*
 * Hold a routine that checks or masks a pointer itself to it: with one into the kernel's half, at
 * the border, or that is no address, nothing there is accessed, and nothing counts as done.
 */
void strays_run(const struct job *job);

#endif
