/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shut a process in before it runs code that nobody vouches for. */
#ifndef HARNESS_BLOCK_SEAL_H
#define HARNESS_BLOCK_SEAL_H

#include <stddef.h>

/* Let go of all open files. */
void block_seal_files(void);

/*
 * Limit what this process may use, and its system calls to those that the harness itself still
 * makes, from its own code: any other raises SIGSYS. Returns 0; 1 where the system has no such
 * filter; -1 and why where it refuses.
 */
int block_seal(char *why, size_t size);

#endif
