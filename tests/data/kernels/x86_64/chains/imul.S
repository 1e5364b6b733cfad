/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chain.h"

CHAIN imulq %rax, %rax
