/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_TYPES_H
#define LW_LINUX_TYPES_H

#include <linux/compiler.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef unsigned long size_t;
typedef unsigned short umode_t;
typedef u32 dev_t;
typedef long loff_t;
typedef _Bool bool;

typedef __u32 __wsum;
typedef unsigned int __poll_t;

#define true 1
#define false 0
#define NULL ((void *)0)

#endif
