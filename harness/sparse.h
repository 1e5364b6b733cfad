/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of more bytes than there are: both ends can be accessed, what lies between cannot. */
#ifndef HARNESS_SPARSE_H
#define HARNESS_SPARSE_H

#include "job.h"

/*
 * A routine that takes a part of its count for all of it then finds nothing amiss: it copies to
 * where that ends and from where the buffers end, and says that all is done.
 */
void sparse_run(const struct job *job);

#endif
