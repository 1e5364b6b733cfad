/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Check a variant against its contract. */
#ifndef HARNESS_CHECK_H
#define HARNESS_CHECK_H

#include "job.h"

/*
 * Check one job in a separate process and print the verdict as one line of JSON. Returns true if
 * the contract held.
 */
bool check_job(const struct job *job);

#endif
