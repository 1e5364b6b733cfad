/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In the kernel, copy_to_user() is the kernel's own. */
#include <linux/uaccess.h>
