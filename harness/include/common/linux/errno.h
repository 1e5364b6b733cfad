/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_ERRNO_H
#define LW_LINUX_ERRNO_H

#define EFAULT 14

#endif
