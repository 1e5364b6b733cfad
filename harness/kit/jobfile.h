/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All jobs of a file. */
#ifndef HARNESS_KIT_JOBFILE_H
#define HARNESS_KIT_JOBFILE_H

#include "../job.h"

struct jobfile {
	struct job *jobs;
	size_t count;
};

/* Read a file of jobs; exits with a message where it cannot be read or a job is wrong. */
struct jobfile jobfile_read(const char *path);

/* True if an id is of the wanted kernel or variant (KERNEL[/VARIANT]); NULL wants all. */
bool jobfile_wanted(const char *id, const char *wanted);

#endif
