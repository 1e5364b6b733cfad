// SPDX-License-Identifier: GPL-2.0-or-later
#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

const struct clock *clock_find(char *why, size_t size)
{
	const struct clock *const all[] = {&clock_perf, clock_of_machine};
	size_t used = 0;

	*why = 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char reason[160] = "";

		if (!all[i]->open(reason, sizeof(reason)))
			return all[i];
		used += snprintf(why + used, size - used, "%s%s: %s", used ? "; " : "",
				 all[i]->name, reason);
		if (used >= size)
			used = size - 1;
	}
	return NULL;
}

double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}
