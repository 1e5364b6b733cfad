/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The selection by a user, parsed strictly: an error changes nothing. */
#ifndef LOOPWRIGHT_KMOD_SELECT_H
#define LOOPWRIGHT_KMOD_SELECT_H

#include "kmod.h"

#define SELECT_BYTES 256

/* Read "key=value ..." (text is taken apart) into selection; -EINVAL and no change otherwise. */
int select_read(char *text, struct selection *selection);

/* Write a selection as it is read; returns the bytes. */
int select_print(const struct selection *selection, char *text, size_t size);

#endif
