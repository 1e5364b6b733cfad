/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Facts that the machine reports about itself. */
#ifndef HARNESS_FACTS_H
#define HARNESS_FACTS_H

#include "job.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Print the identification of the CPU, and the files that a job names, as members of the open JSON
 * object. In a file's path "cpuN" stands for the CPU that measurements are pinned to. Unreadable
 * files are left out; of others the text before the first empty line is printed.
 */
void facts_print(const struct job *job);

/* A hash that identifies the machine: of its CPU and of the system's identifiers of it. */
uint64_t facts_identity(void);

/* The same as text. */
#define FACTS_FINGERPRINT 17
void facts_fingerprint(char text[FACTS_FINGERPRINT]);

/* Read a file up to its first empty line into text; -1 if it cannot be read. */
int facts_file(const char *path, char *text, size_t size);

#endif
