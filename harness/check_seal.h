/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keep a routine under test from system calls. */
#ifndef HARNESS_CHECK_SEAL_H
#define HARNESS_CHECK_SEAL_H

#include <stddef.h>
#include <stdint.h>

/*
 * Have system calls out of this code raise SIGSYS from now on, where the kernel can do that; an
 * emulator of user programs cannot.
 */
void check_seal(const uint8_t *code, size_t size);

#endif
