// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/eventpoll.h>
#include <linux/uaccess.h>

static inline struct epoll_event __user *epoll_put_uevent(__poll_t revents, __u64 data,
							  struct epoll_event __user *uevent)
{
	if (__put_user(revents, &uevent->events) || __put_user(data, &uevent->data))
		return NULL;

	return uevent + 1;
}

#include "putuser.h"
#include "send_events.h"
