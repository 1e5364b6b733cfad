/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_STAT_H
#define LW_LINUX_STAT_H

#include <asm/stat.h>
#include <linux/types.h>

struct timespec64 {
	long tv_sec;
	long tv_nsec;
};

/*
 * What a file system says of a file, as far as stat passes it on. Device numbers are encoded and
 * ids are mapped already: every way to fill struct stat does that alike.
 */
struct kstat {
	u64 ino;
	dev_t dev;
	dev_t rdev;
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

#endif
