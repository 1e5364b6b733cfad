/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hold a variant to its contract. */
#ifndef HARNESS_CHECK_H
#define HARNESS_CHECK_H

#include "job.h"

/*
 * Check one job in a process of its own and print the verdict as one line of JSON. Returns whether
 * the contract held.
 */
bool check_job(const struct job *job);

#endif
