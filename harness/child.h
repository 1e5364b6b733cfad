/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Run a function in a separate process, so that its code cannot harm this one. */
#ifndef HARNESS_CHILD_H
#define HARNESS_CHILD_H

#include <stddef.h>

/* Map memory that a child shares with this process. */
void *child_share(size_t size);
void child_unshare(void *memory, size_t size);

/*
 * Call run(data) in a child that is killed after so many seconds. Returns 0 if it ended by itself
 * with exit code 0; else -1 with its outcome in why.
 */
int child_run(void (*run)(void *), void *data, int seconds, char *why, size_t size);

#endif
