/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_COMPILER_H
#define LW_LINUX_COMPILER_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define __always_inline inline __attribute__((__always_inline__))
#define __must_check __attribute__((__warn_unused_result__))

/* Address spaces and forced casts exist for sparse alone. */
#define __user
#define __force

#define __visible __attribute__((externally_visible))

#endif
