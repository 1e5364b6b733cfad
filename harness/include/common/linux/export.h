/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_EXPORT_H
#define LW_LINUX_EXPORT_H

#define EXPORT_SYMBOL(name)

#endif
