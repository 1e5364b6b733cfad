/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The harness's chains; a return of the kernel may be a jump to a thunk. */
#include <linux/linkage.h>

#define ret RET
#include "harness_chains.S"
