// SPDX-License-Identifier: GPL-2.0-or-later
#include "jobfile.h"

#include <stdlib.h>
#include <string.h>

struct jobfile jobfile_read(const char *path)
{
	struct jobfile found = {0};
	FILE *file = fopen(path, "r");
	char why[160];
	struct job job;
	int got;

	if (!file) {
		perror(path);
		exit(2);
	}
	while ((got = job_read(file, &job, why, sizeof(why))) > 0) {
		found.jobs = realloc(found.jobs, (found.count + 1) * sizeof(job));
		found.jobs[found.count++] = job;
	}
	fclose(file);
	if (got < 0) {
		fprintf(stderr, "%s: %s: %s\n", path, job.id ? job.id : "a job", why);
		exit(2);
	}
	return found;
}

bool jobfile_wanted(const char *id, const char *wanted)
{
	size_t length = wanted ? strlen(wanted) : 0;

	return !length || (!strncmp(id, wanted, length) && (!id[length] || id[length] == '/'));
}
