/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_STAT_H
#define LW_ASM_STAT_H

/* The 144 bytes that the stat system calls of x86-64 fill. */
struct stat {
	unsigned long st_dev;
	unsigned long st_ino;
	unsigned long st_nlink;
	unsigned int st_mode;
	unsigned int st_uid;
	unsigned int st_gid;
	unsigned int __pad0;
	unsigned long st_rdev;
	long st_size;
	long st_blksize;
	long st_blocks;
	unsigned long st_atime;
	unsigned long st_atime_nsec;
	unsigned long st_mtime;
	unsigned long st_mtime_nsec;
	unsigned long st_ctime;
	unsigned long st_ctime_nsec;
	long __unused[3];
};

#define INIT_STRUCT_STAT_PADDING(st)                                                               \
	do {                                                                                       \
		(st).__pad0 = 0;                                                                   \
		(st).__unused[0] = 0;                                                              \
		(st).__unused[1] = 0;                                                              \
		(st).__unused[2] = 0;                                                              \
	} while (0)

#endif
