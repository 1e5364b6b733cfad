/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The record that variants of cp_new_stat() read: of the kernel's struct kstat, whose ids have to
 * be mapped and whose device numbers to be encoded first, what is stored, ready to be stored.
 */
#ifndef LOOPWRIGHT_KSTAT_H
#define LOOPWRIGHT_KSTAT_H

#include <linux/stat.h>
#include <linux/types.h>

struct loopwright_kstat {
	u64 ino;
	u32 dev;
	u32 rdev;
	unsigned int nlink;
	umode_t mode;
	unsigned int uid;
	unsigned int gid;
	loff_t size;
	struct timespec64 atime;
	struct timespec64 mtime;
	struct timespec64 ctime;
	u64 blocks;
	u32 blksize;
};
#define kstat loopwright_kstat

/* The kernel has it in fs/stat.c for other architectures, in asm/stat.h for this one. */
#include <asm/stat.h>

#endif
