// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/errno.h>
#include <linux/stat.h>
#include <linux/uaccess.h>

static int cp_new_stat(struct kstat *stat, struct stat __user *statbuf)
{
	if (!user_write_access_begin(statbuf, sizeof(*statbuf)))
		return -EFAULT;

	unsafe_put_user(stat->dev, &statbuf->st_dev, efault);
	unsafe_put_user(stat->ino, &statbuf->st_ino, efault);
	unsafe_put_user(stat->nlink, &statbuf->st_nlink, efault);
	unsafe_put_user(stat->mode, &statbuf->st_mode, efault);
	unsafe_put_user(stat->uid, &statbuf->st_uid, efault);
	unsafe_put_user(stat->gid, &statbuf->st_gid, efault);
	unsafe_put_user(0, &statbuf->__pad0, efault);
	unsafe_put_user(stat->rdev, &statbuf->st_rdev, efault);
	unsafe_put_user(stat->size, &statbuf->st_size, efault);
	unsafe_put_user(stat->blksize, &statbuf->st_blksize, efault);
	unsafe_put_user(stat->blocks, &statbuf->st_blocks, efault);
	unsafe_put_user(stat->atime.tv_sec, &statbuf->st_atime, efault);
	unsafe_put_user(stat->atime.tv_nsec, &statbuf->st_atime_nsec, efault);
	unsafe_put_user(stat->mtime.tv_sec, &statbuf->st_mtime, efault);
	unsafe_put_user(stat->mtime.tv_nsec, &statbuf->st_mtime_nsec, efault);
	unsafe_put_user(stat->ctime.tv_sec, &statbuf->st_ctime, efault);
	unsafe_put_user(stat->ctime.tv_nsec, &statbuf->st_ctime_nsec, efault);
	unsafe_put_user(0, &statbuf->__unused[0], efault);
	unsafe_put_user(0, &statbuf->__unused[1], efault);
	unsafe_put_user(0, &statbuf->__unused[2], efault);
	user_write_access_end();
	return 0;

efault:
	user_write_access_end();
	return -EFAULT;
}

#include "put_stat.h"
