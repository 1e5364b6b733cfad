// SPDX-License-Identifier: GPL-2.0-or-later
#include "verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const struct job *job;
static struct verdict *verdict;
static const struct attempt *current;

void verdict_open(const struct job *of_job, struct verdict *into)
{
	job = of_job;
	verdict = into;
}

void verdict_on(const struct attempt *attempt)
{
	current = attempt;
}

/* Describe the current case, e.g. "size 64, dst +3, src +0, dst ends after 12". */
static void describe(char *text, size_t size)
{
	static const char *const names[] = {"dst", "src"};
	const struct attempt *a = current;
	int used = snprintf(text, size, "%s %zu",
			    job->effect == EFFECT_STORE_FIELDS ? "records" : "size", a->count);

	for (int s = 0; s < SIDES; s++)
		if (a->at[s])
			used += snprintf(text + used, size - used, ", %s +%zu", names[s],
					 (size_t)(uintptr_t)a->at[s] % 4096);
	if (a->overlapped)
		used += snprintf(text + used, size - used, ", src - dst = %td",
				 a->at[SIDE_SRC] - a->at[SIDE_DST]);
	for (int s = 0; s < SIDES; s++) {
		if (a->at[s] && a->limit[s] < a->bytes[s])
			used += snprintf(text + used, size - used, ", %s faults at byte %zu",
					 names[s], a->limit[s]);
		if (a->at[s] && a->front[s])
			used += snprintf(text + used, size - used, ", %s faults before byte %zu",
					 names[s], a->front[s]);
	}
}

void verdict_fail(const char *format, ...)
{
	char what[200], where[110];
	va_list values;

	va_start(values, format);
	vsnprintf(what, sizeof(what), format, values);
	va_end(values);
	describe(where, sizeof(where));
	snprintf(verdict->failure, sizeof(verdict->failure), "%s (%s)", what, where);
	_exit(0);
}
