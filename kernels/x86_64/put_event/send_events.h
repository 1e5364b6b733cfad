/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ep_send_events() does with epoll_put_uevent(): one call for each event that is ready. */
#include "ready_event.h"

/* Store count events at dst; returns how many were stored before the first fault. */
unsigned long put_events(struct epoll_event __user *dst, const struct ready_event *src,
			 unsigned long count)
{
	unsigned long stored;

	for (stored = 0; stored < count; stored++, src++) {
		dst = epoll_put_uevent(src->events, src->data, dst);
		if (!dst)
			break;
	}
	return stored;
}
