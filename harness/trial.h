/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Try an instruction that may trap: reading a counter without permission. */
#ifndef HARNESS_TRIAL_H
#define HARNESS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

/* Call read(index); false if that raises SIGILL or SIGSEGV. */
bool trial_read(uint64_t (*read)(uint32_t index), uint32_t index);

#endif
