// SPDX-License-Identifier: GPL-2.0-or-later
#include "check_seal.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#define LOAD(half)                                                                                 \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,                                                         \
		 offsetof(struct seccomp_data, instruction_pointer) + (half))
#define JUMP(test, value, then, otherwise)                                                         \
	BPF_JUMP(BPF_JMP | (test) | BPF_K, (uint32_t)(value), then, otherwise)

void check_seal(const uint8_t *code, size_t size)
{
	uint64_t from = (uintptr_t)code, to = from + size;
	struct sock_filter filter[] = {
	    LOAD(4),
	    JUMP(BPF_JEQ, from >> 32, 0, 4),
	    LOAD(0),
	    JUMP(BPF_JGE, from, 0, 2),
	    JUMP(BPF_JGT, to, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	/* Code in two ranges of 4 GiB: once in a million runs, which is then guarded less. */
	if (from >> 32 != to >> 32)
		return;
	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
