/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_READY_EVENT_H
#define LW_READY_EVENT_H

#include <linux/types.h>

/* What epoll knows of an event that is ready. */
struct ready_event {
	__poll_t events;
	__u64 data;
};

#endif
