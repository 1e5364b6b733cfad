// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/eventpoll.h>
#include <linux/uaccess.h>

#include "ready_event.h"

/* The caller has masked uevent; what follows it up to the guard page needs no mask of its own. */
static inline struct epoll_event __user *epoll_put_uevent(__poll_t revents, __u64 data,
							  struct epoll_event __user *uevent)
{
	stac();
	unsafe_put_user(revents, &uevent->events, efault);
	unsafe_put_user(data, &uevent->data, efault);
	user_write_access_end();
	return uevent + 1;

efault:
	user_write_access_end();
	return NULL;
}

/* Store count events at dst; returns how many were stored before the first fault. */
unsigned long put_events(struct epoll_event __user *dst, const struct ready_event *src,
			 unsigned long count)
{
	unsigned long stored;

	dst = mask_user_address(dst);
	for (stored = 0; stored < count; stored++, src++) {
		dst = epoll_put_uevent(src->events, src->data, dst);
		if (!dst)
			break;
	}
	return stored;
}
