/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Judge a series that was recorded, here or in user space: the same rule, built for a kernel. */
#ifndef LOOPWRIGHT_JUDGE_H
#define LOOPWRIGHT_JUDGE_H

#include <linux/types.h>

#define JUDGE_BYTES 65536

/* Record what becomes of a series in the words of common/replay.h; -EINVAL for other words. */
int judge(char *text);

#endif
