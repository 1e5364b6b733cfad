// SPDX-License-Identifier: GPL-2.0-or-later
#include "known.h"

#include <math.h>

double known_cycles(const struct known *known, double measured)
{
	if (known->cycles)
		return known->cycles;
	return measured > 0.75 ? round(measured) : 1 / round(1 / measured);
}
