/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_UACCESS_H
#define LW_LINUX_UACCESS_H

#include <asm/uaccess.h>

#ifdef masked_user_access_begin
#define can_do_masked_user_access() 1
#else
#define can_do_masked_user_access() 0
#define masked_user_access_begin(ptr) NULL
#endif

#define user_write_access_begin user_access_begin
#define user_write_access_end user_access_end

#endif
