/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of more bytes than there is memory: both ends are accessible, the bytes between are not. */
#ifndef HARNESS_SPARSE_H
#define HARNESS_SPARSE_H

#include "job.h"

/*
 * A routine that uses only a part of its count's bits meets no fault: it copies up to the end of
 * that part, and reports that all is done.
 */
void sparse_run(const struct job *job);

#endif
