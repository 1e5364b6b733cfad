// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/eventpoll.h>
#include <linux/uaccess.h>

static inline struct epoll_event __user *epoll_put_uevent(__poll_t revents, __u64 data,
							  struct epoll_event __user *uevent)
{
	if (!user_write_access_begin(uevent, sizeof(*uevent)))
		return NULL;

	unsafe_put_user(revents, &uevent->events, efault);
	unsafe_put_user(data, &uevent->data, efault);
	user_write_access_end();
	return uevent + 1;

efault:
	user_write_access_end();
	return NULL;
}

#include "send_events.h"
