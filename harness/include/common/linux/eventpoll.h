/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_LINUX_EVENTPOLL_H
#define LW_LINUX_EVENTPOLL_H

#include <linux/types.h>

#ifdef __x86_64__
#define EPOLL_PACKED __attribute__((packed))
#else
#define EPOLL_PACKED
#endif

struct epoll_event {
	__poll_t events;
	__u64 data;
} EPOLL_PACKED;

#endif
