/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HARNESS_STATISTICS_H
#define HARNESS_STATISTICS_H

#include <stddef.h>

void sort(double *values, size_t count);

/* The value below which a part (0 to 1) of sorted values lies, interpolated. */
double quantile(const double *sorted, size_t count, double part);

#endif
