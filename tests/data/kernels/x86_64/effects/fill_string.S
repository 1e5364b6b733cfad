/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extable.h"

FUNCTION test_fill
1:	rep stosb
.Ldone:
	ret

	EXTABLE 1b, .Ldone
END test_fill
