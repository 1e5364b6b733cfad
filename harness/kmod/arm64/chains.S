/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The harness's chains, as they are. */
#include "harness_chains.S"
