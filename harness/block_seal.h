/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Seal a process before it runs untrusted code. */
#ifndef HARNESS_BLOCK_SEAL_H
#define HARNESS_BLOCK_SEAL_H

#include <stddef.h>

/* Let go of all open files. */
void block_seal_files(void);

/*
 * Limit the resources of this process, and its system calls to those that the harness itself still
 * makes, from its own code: any other raises SIGSYS. Returns 0; 1 if the system has no such filter;
 * -1 with the reason in why if it refuses.
 */
int block_seal(char *why, size_t size);

#endif
