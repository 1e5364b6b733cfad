/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Check a routine against its contract on real user memory, with a fault at every position. */
#ifndef LOOPWRIGHT_KMOD_CHECK_H
#define LOOPWRIGHT_KMOD_CHECK_H

#include "kmod.h"

/* Check the variant, set its state, and record the result; -EINTR if interrupted. */
int check_variant(const struct run *run, struct variant *variant);

#endif
