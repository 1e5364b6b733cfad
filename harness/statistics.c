// SPDX-License-Identifier: GPL-2.0-or-later
#include "statistics.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void sort(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
}

double quantile(const double *sorted, size_t count, double part)
{
	double at = part * (count - 1);
	size_t low = at;

	if (low + 1 >= count)
		return sorted[count - 1];
	return sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]);
}
