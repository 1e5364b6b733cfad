/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs: in a thread of their own, bound to their CPU, in the memory of the process that asks. */
#ifndef LOOPWRIGHT_KMOD_RUN_H
#define LOOPWRIGHT_KMOD_RUN_H

#include "kmod.h"

/*
 * Do what is asked, "check", "self-test" or "measure", and record it. -EINVAL for another word,
 * -ENODEV where the CPU is not online, -EINTR where a signal came.
 */
int run_verb(const char *what, unsigned int cpu, const struct selection *selection);

#endif
