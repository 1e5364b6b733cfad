/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hold a routine to its contract on real user memory, with a fault at every position. */
#ifndef LOOPWRIGHT_KMOD_CHECK_H
#define LOOPWRIGHT_KMOD_CHECK_H

#include "kmod.h"

/* Check the variant, set its state, and record what came out; -EINTR where asked to stop. */
int check_variant(const struct run *run, struct variant *variant);

#endif
