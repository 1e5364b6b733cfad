// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "block_seal.h"

#include "block_machine.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_CALLS 16
#define CPU_SECONDS 20
#define ADDRESS_SPACE (1 << 28)

/* System calls that are still needed while a block is run and measured. */
static const int always[] = {
    SYS_rt_sigreturn,  SYS_exit_group,	    SYS_mmap,	SYS_munmap, SYS_setitimer,
    SYS_clock_gettime, SYS_clock_nanosleep, SYS_getcpu, SYS_read,   -1};

extern char __executable_start[], etext[];

void block_seal_files(void)
{
	long most = sysconf(_SC_OPEN_MAX);

#ifdef SYS_close_range
	if (!syscall(SYS_close_range, 0, ~0u, 0))
		return;
#endif
	for (int fd = 0; fd < most; fd++)
		close(fd);
}

static void limit(int resource, rlim_t value)
{
	struct rlimit most = {value, value};

	setrlimit(resource, &most);
}

static uint32_t high(uintptr_t address)
{
	return (uint64_t)address >> 32;
}

#define LOAD(field, half)                                                                          \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + (half))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define WHEN(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0)
#define TRAP BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)

/*
 * The block's code has 4 GiB for itself, so the upper half of the instruction pointer identifies
 * the caller. Signal handlers return, and clocks are read, through the vDSO.
 */
static unsigned short write_filter(struct sock_filter *filter)
{
	uint32_t vdso = high(getauxval(AT_SYSINFO_EHDR));
	const struct sock_filter head[] = {
	    LOAD(arch, 0),
	    WHEN(block_audit_arch, 1),
	    TRAP,
	    LOAD(instruction_pointer, 4),
	    WHEN(high((uintptr_t)__executable_start), 3),
	    WHEN(high((uintptr_t)etext), 2),
	    WHEN(vdso, 1),
	    TRAP,
	    /* No memory becomes code, and no code is written. */
	    LOAD(nr, 0),
	    UNLESS(SYS_mmap, 4),
	    LOAD(args[2], 0),
	    WHEN(PROT_READ | PROT_WRITE, 1),
	    TRAP,
	    LOAD(nr, 0),
	};
	const int *const lists[] = {always, block_system_calls};
	unsigned short length = sizeof(head) / sizeof(*head);

	memcpy(filter, head, sizeof(head));
	for (int i = 0; i < 2; i++)
		for (const int *call = lists[i]; *call >= 0; call++) {
			filter[length++] = (struct sock_filter)UNLESS(*call, 1);
			filter[length++] =
			    (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		}
	filter[length++] = (struct sock_filter)TRAP;
	return length;
}

int block_seal(char *why, size_t size)
{
	struct sock_filter filter[16 + 2 * MOST_CALLS];
	struct sock_fprog program = {.filter = filter};

	program.len = write_filter(filter);
	limit(RLIMIT_AS, ADDRESS_SPACE);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NOFILE, 0);
	limit(RLIMIT_NPROC, 0);
	limit(RLIMIT_CPU, CPU_SECONDS);
	prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		snprintf(why, size, "cannot seal the block's process: %s", strerror(errno));
		return -1;
	}
	if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 0;
	if (errno == EINVAL || errno == ENOSYS)
		return 1;
	snprintf(why, size, "cannot seal the block's process: seccomp: %s", strerror(errno));
	return -1;
}
