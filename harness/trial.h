/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Try what may trap: reading a counter that user space is not let at after all. */
#ifndef HARNESS_TRIAL_H
#define HARNESS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

/* Call read(index); false where that raises SIGILL or SIGSEGV. */
bool trial_read(uint64_t (*read)(uint32_t index), uint32_t index);

#endif
