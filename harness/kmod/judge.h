/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Judge a series recorded here or in user space: the same rule, built for a kernel. */
#ifndef LOOPWRIGHT_JUDGE_H
#define LOOPWRIGHT_JUDGE_H

#include <linux/types.h>

#define JUDGE_BYTES 65536

/* Record the reading of a series in the format of common/replay.h; -EINVAL for other text. */
int judge(char *text);

#endif
