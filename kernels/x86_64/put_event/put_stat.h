/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the stat system calls do with cp_new_stat(). */

/* Fill dst; returns how many structures, 1 or 0, were filled. */
unsigned long put_stat(struct stat __user *dst, struct kstat *src)
{
	return cp_new_stat(src, dst) ? 0 : 1;
}
