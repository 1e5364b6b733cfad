/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Words of a job's lines. */
#ifndef HARNESS_JOB_WORDS_H
#define HARNESS_JOB_WORDS_H

#include "job.h"

/* Read a number, decimal or hexadecimal; false for anything else. */
bool job_number(const char *text, size_t *value);

/* Read a line that only blocks have; false for any other. */
bool job_block_line(struct job *job, char **word);

#endif
