/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs: each in a thread bound to its CPU, in the memory of the requesting process. */
#ifndef LOOPWRIGHT_KMOD_RUN_H
#define LOOPWRIGHT_KMOD_RUN_H

#include "kmod.h"

/*
 * Run "check", "self-test" or "measure", and record the result. -EINVAL for another word, -ENODEV
 * if the CPU is not online, -EINTR after a signal.
 */
int run_verb(const char *what, unsigned int cpu, const struct selection *selection);

#endif
