// SPDX-License-Identifier: GPL-2.0-or-later
#include "check.h"

#include "attempt.h"
#include "cases.h"
#include "child.h"
#include "json.h"
#include "machine.h"

#include <time.h>

#define SECONDS                                                                                    \
	400 /* for one variant, on a busy machine; a routine that hangs is found much earlier */

struct work {
	const struct job *job;
	struct verdict *verdict;
};

static void work(void *data)
{
	struct work *w = data;
	char why[128];

	if (machine_init(why, sizeof(why))) {
		snprintf(w->verdict->failure, sizeof(w->verdict->failure), "%s", why);
		return;
	}
	attempt_init(w->job, w->verdict);
	cases_run(w->job);
	w->verdict->finished = 1;
}

bool check_job(const struct job *job)
{
	size_t size = sizeof(struct verdict) + job->entries * sizeof(uint32_t);
	struct verdict *verdict = child_share(size);
	struct work w = {job, verdict};
	char why[128] = "";
	struct timespec from, to;
	bool held;

	clock_gettime(CLOCK_MONOTONIC, &from);
	child_run(work, &w, SECONDS, why, sizeof(why));
	clock_gettime(CLOCK_MONOTONIC, &to);
	json_open();
	json_string("id", job->id);
	if (job->object)
		json_string("object", job->object);
	json_integer("passed", verdict->finished);
	json_integer("cases", verdict->cases);
	json_string("failure", *verdict->failure   ? verdict->failure
			       : *why		   ? why
			       : verdict->finished ? ""
						   : "ended the checking process");
	json_integer("over_report_bytes", verdict->over_report);
	json_array_open("hits");
	for (size_t i = 0; i < job->entries; i++)
		json_item_integer(verdict->hits[i]);
	json_array_close();
	json_number("seconds", to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) * 1e-9);
	json_close();
	held = verdict->finished;
	child_unshare(verdict, size);
	return held;
}
