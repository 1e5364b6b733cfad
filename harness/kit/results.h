/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file of results: JSON lines, each written at once, only ever appended. */
#ifndef HARNESS_KIT_RESULTS_H
#define HARNESS_KIT_RESULTS_H

#include "jobfile.h"

#include <stdint.h>

#define RESULTS_UNSTEADY 8 /* tries without one speed after which a trial has none */

/* The results of a job so far. */
struct progress {
	int passed;    /* of a check: -1 not known yet, 0 or 1 */
	int *readings; /* of each point; of a trial those without one speed */
	int *accepted;
};

/* The points to measure, and the missing ones. */
struct plan {
	long points;
	long missing;
};

struct results {
	const char *path;
	int file;
	const struct jobfile *jobs;
	struct progress *progress; /* of each job */
	uint64_t seen;		   /* bytes that were looked at: whole lines */
	bool ended;		   /* there is a trailer */
	long readings;
	long refused;
	char reason[160];  /* why the last one was refused */
	char learning[64]; /* of a calibration: what the last trial was for */
	size_t *trials;	   /* its trials among the jobs, by their ids */
	size_t ntrials;
	size_t answered; /* of them */
};

/*
 * Create a new file, or continue one that this kit began on this machine. Standard output is then
 * appended to it. Exits with a message on failure.
 */
struct results results_create(const char *path, const struct jobfile *jobs);
struct results results_resume(const char *path, const struct jobfile *jobs, const char *kit,
			      bool calibration);

/* Read the lines appended since, by any process. */
void results_follow(struct results *results);

/* Print the first line, which a reader needs for the others. calibration: trials follow. */
void results_head(const char *kit, const char *version, bool calibration);

#endif
