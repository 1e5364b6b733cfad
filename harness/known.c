// SPDX-License-Identifier: GPL-2.0-or-later
#include "known.h"

#include <math.h>

bool known_holds(const struct known *known, double cycles)
{
	double expected = known->cycles;

	if (!expected)
		expected = cycles > 0.75 ? round(cycles) : 1 / round(1 / cycles);
	return fabs(cycles / expected - 1) <= known->tolerance;
}
