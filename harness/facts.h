/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the machine says of itself, unjudged. */
#ifndef HARNESS_FACTS_H
#define HARNESS_FACTS_H

#include "job.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Print what identifies the CPU and the files that a job names as members of the JSON object that
 * is open. In a file's path "cpuN" stands for the CPU that measurements are pinned to. Of a file
 * that cannot be read nothing is printed, of others what stands before the first empty line.
 */
void facts_print(const struct job *job);

/* A number that is the same for the same machine: of its CPU and of what the system calls it. */
uint64_t facts_identity(void);

/* The same as text. */
#define FACTS_FINGERPRINT 17
void facts_fingerprint(char text[FACTS_FINGERPRINT]);

/* Read what stands before the first empty line of a file into text; -1 where it cannot be read. */
int facts_file(const char *path, char *text, size_t size);

#endif
