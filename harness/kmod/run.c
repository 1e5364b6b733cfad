// SPDX-License-Identifier: GPL-2.0-or-later
#include "run.h"

#include "arch.h"
#include "call.h"
#include "check.h"
#include "measure.h"
#include "readings.h"
#include "records.h"

#include <linux/build_bug.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/utsname.h>

static_assert(offsetof(struct call, dst) == CALL_DST);
static_assert(offsetof(struct call, src) == CALL_SRC);
static_assert(offsetof(struct call, count) == CALL_COUNT);
static_assert(offsetof(struct call, sum) == CALL_SUM);
static_assert(offsetof(struct call, result) == CALL_RESULT);
static_assert(offsetof(struct call, flags) == CALL_FLAGS);

struct task {
	struct run run;
	int (*work)(struct run *run);
	struct mm_struct *mm;
	struct completion done;
	int result;
};

static int check_all(struct run *run)
{
	int error = 0;

	for (unsigned int i = 0; i < variants_count && !error && !run_ends(run); i++)
		if (variants[i]->runs())
			error = check_variant(run, variants[i]);
	return error;
}

static int describe(const struct run *run, const struct meter *meter)
{
	record_open();
	record_string("record", "self-test");
	record_string("id", "clock");
	record_string("mode", "kernel");
	record_string("isa", arch_isa);
	record_string("release", init_utsname()->release);
	record_integer("cpu", run->cpu);
	arch_describe();
	readings_meter(meter);
	return record_close();
}

static int with_meter(struct run *run, bool measuring)
{
	struct {
		struct meter meter;
		struct workspace room;
	} *of = kvzalloc(sizeof(*of), GFP_KERNEL);
	struct variant *variant = run->selection.variant;
	int error = 0;

	if (!of)
		return -ENOMEM;
	if (measuring && variant->state == UNTRIED)
		error = check_variant(run, variant);
	if (!error) {
		meter_open(&of->meter, run, &of->room);
		error = describe(run, &of->meter);
		if (!error && measuring)
			error = measure(run, &of->meter, &of->room);
		meter_close(&of->meter);
	}
	kvfree(of);
	return READ_ONCE(run->stop) ? -EINTR : error;
}

static int self_test(struct run *run)
{
	return with_meter(run, false);
}

static int measure_selected(struct run *run)
{
	return run->selection.variant ? with_meter(run, true) : -EINVAL;
}

static const struct {
	const char *word;
	int (*work)(struct run *run);
} works[] = {{"check", check_all}, {"self-test", self_test}, {"measure", measure_selected}};

static int thread(void *data)
{
	struct task *task = data;

	kthread_use_mm(task->mm);
	task->result = task->work(&task->run);
	kthread_unuse_mm(task->mm);
	complete(&task->done);
	return 0;
}

/* User pages with an inaccessible page on each side; an error as a negative number. */
static unsigned long map_user(void)
{
	unsigned long size = USER_BYTES + 2 * PAGE_SIZE, mapped;
	unsigned long at = vm_mmap(NULL, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, 0);

	if (IS_ERR_VALUE(at))
		return at;
	mapped = vm_mmap(NULL, at + PAGE_SIZE, USER_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0);
	if (IS_ERR_VALUE(mapped))
		vm_munmap(at, size);
	return mapped;
}

static int map(struct areas *areas)
{
	areas->user = map_user();
	if (IS_ERR_VALUE(areas->user))
		return areas->user;
	for (int side = 0; side < SIDES; side++)
		areas->kernel[side] = alloc_pages_exact(KERNEL_BYTES, GFP_KERNEL | __GFP_ZERO);
	return areas->kernel[SIDE_DST] && areas->kernel[SIDE_SRC] ? 0 : -ENOMEM;
}

static void unmap(struct areas *areas)
{
	if (!IS_ERR_VALUE(areas->user))
		vm_munmap(areas->user - PAGE_SIZE, USER_BYTES + 2 * PAGE_SIZE);
	for (int side = 0; side < SIDES; side++)
		if (areas->kernel[side])
			free_pages_exact(areas->kernel[side], KERNEL_BYTES);
}

/* Have the thread do the work; it ends early if this process gets a signal. */
static int in_thread(struct task *task)
{
	struct task_struct *worker = kthread_create(thread, task, "loopwright/%u", task->run.cpu);

	if (IS_ERR(worker))
		return PTR_ERR(worker);
	init_completion(&task->done);
	/* If the CPU goes offline nevertheless, every burst is recognised as run elsewhere. */
	kthread_bind(worker, task->run.cpu);
	get_task_struct(worker);
	wake_up_process(worker);
	if (wait_for_completion_interruptible(&task->done)) {
		WRITE_ONCE(task->run.stop, true);
		wait_for_completion(&task->done);
	}
	/* The thread must be out of this module before the module can go. */
	kthread_stop(worker);
	put_task_struct(worker);
	return task->result;
}

int run_verb(const char *what, unsigned int cpu, const struct selection *selection)
{
	struct task *task;
	int error = -EINVAL;

	if (!current->mm)
		return -EINVAL;
	if (cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -ENODEV;
	task = kzalloc(sizeof(*task), GFP_KERNEL);
	if (!task)
		return -ENOMEM;
	task->run.cpu = cpu;
	task->run.selection = *selection;
	task->mm = current->mm;
	for (unsigned int i = 0; i < ARRAY_SIZE(works); i++)
		if (!strcmp(what, works[i].word))
			task->work = works[i].work;
	if (task->work && (task->work != measure_selected || selection->variant)) {
		records_clear();
		error = map(&task->run.areas);
		if (!error)
			error = in_thread(task);
		unmap(&task->run.areas);
	}
	kfree(task);
	return error;
}
