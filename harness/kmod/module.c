// SPDX-License-Identifier: GPL-2.0-or-later
/* The files below /sys/kernel/debug/loopwright, described in README.md. */
#include "judge.h"
#include "records.h"
#include "run.h"
#include "select.h"

#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* One at a time: selection, cpu and records belong to the last writer. */
static DEFINE_MUTEX(busy);
static struct selection selection;
static unsigned int cpu;
static struct dentry *folder;

/* Take a line that a process writes at once: no byte but printable ones and one newline. */
static int take_line(char *line, size_t size, const char __user *from, size_t count, loff_t *at)
{
	if (*at || !count || count >= size)
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	if (line[count - 1] == '\n')
		count--;
	line[count] = 0;
	for (size_t i = 0; i < count; i++)
		if (line[i] < ' ' || line[i] > '~')
			return -EINVAL;
	return 0;
}

static const char *counts(const struct variant *v)
{
	if (v->effect != EFFECT_STORE_FIELDS)
		return "bytes";
	return v->counted ? "records" : "one";
}

static int variants_show(struct seq_file *file, void *data)
{
	/* By the bits of faulting. */
	static const char *const sides[] = {"none", "dst", "src", "dst src"};

	for (unsigned int i = 0; i < variants_count; i++) {
		const struct variant *v = variants[i];
		bool runs = v->runs();

		seq_printf(file,
			   "{\"id\": \"%s\", \"offset\": %u, \"counts\": \"%s\", \"user\": \"%s\", "
			   "\"runs\": %s, \"needs\": \"%s\", \"entry_mod_64\": %lu, "
			   "\"object\": \"%s\"}\n",
			   v->id, v->offset, counts(v), sides[v->faulting], runs ? "true" : "false",
			   v->needs, (unsigned long)v->entry % 64, v->object);
	}
	for (unsigned int i = 0; i < left_out_count; i++)
		seq_printf(file, "{\"id\": \"%s\", \"left_out\": \"%s\"}\n", left_out[i].id,
			   left_out[i].why);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(variants);

static int sources_show(struct seq_file *file, void *data)
{
	seq_printf(file, "%s\n", sources);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sources);

static int results_show(struct seq_file *file, void *data)
{
	int error = mutex_lock_interruptible(&busy);

	if (error)
		return error;
	records_show(file);
	mutex_unlock(&busy);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(results);

static ssize_t cpu_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	char line[16];

	return simple_read_from_buffer(to, count, at, line,
				       scnprintf(line, sizeof(line), "%u\n", READ_ONCE(cpu)));
}

static ssize_t cpu_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	unsigned int wanted;
	char line[16];
	int error = take_line(line, sizeof(line), from, count, at);

	if (error)
		return error;
	if (strspn(line, "0123456789") != strlen(line) || kstrtouint(line, 10, &wanted) ||
	    wanted >= nr_cpu_ids || !cpu_online(wanted))
		return -EINVAL;
	error = mutex_lock_interruptible(&busy);
	if (error)
		return error;
	cpu = wanted;
	mutex_unlock(&busy);
	return count;
}

static const struct file_operations cpu_fops = {
    .owner = THIS_MODULE,
    .open = simple_open,
    .read = cpu_read,
    .write = cpu_write,
};

static ssize_t select_read_file(struct file *file, char __user *to, size_t count, loff_t *at)
{
	char line[SELECT_BYTES];
	int error = mutex_lock_interruptible(&busy), size;

	if (error)
		return error;
	size = select_print(&selection, line, sizeof(line));
	mutex_unlock(&busy);
	return simple_read_from_buffer(to, count, at, line, size);
}

static ssize_t select_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	char line[SELECT_BYTES];
	int error = take_line(line, sizeof(line), from, count, at);

	if (!error)
		error = mutex_lock_interruptible(&busy);
	if (error)
		return error;
	error = select_read(line, &selection);
	mutex_unlock(&busy);
	return error ?: count;
}

static const struct file_operations select_fops = {
    .owner = THIS_MODULE,
    .open = simple_open,
    .read = select_read_file,
    .write = select_write,
};

static ssize_t run_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	char line[16];
	int error = take_line(line, sizeof(line), from, count, at);

	if (!error)
		error = mutex_lock_interruptible(&busy);
	if (error)
		return error;
	error = run_verb(line, cpu, &selection);
	mutex_unlock(&busy);
	return error ?: count;
}

static const struct file_operations run_fops = {
    .owner = THIS_MODULE,
    .open = simple_open,
    .write = run_write,
};

static ssize_t judge_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	char *text;
	int error;

	if (*at || !count || count >= JUDGE_BYTES)
		return -EINVAL;
	text = memdup_user_nul(from, count);
	if (IS_ERR(text))
		return PTR_ERR(text);
	error = mutex_lock_interruptible(&busy);
	if (!error) {
		error = judge(text);
		mutex_unlock(&busy);
	}
	kfree(text);
	return error ?: count;
}

static const struct file_operations judge_fops = {
    .owner = THIS_MODULE,
    .open = simple_open,
    .write = judge_write,
};

static int __init loopwright_init(void)
{
	int error = records_init();

	if (error)
		return error;
	folder = debugfs_create_dir("loopwright", NULL);
	debugfs_create_file("variants", 0400, folder, NULL, &variants_fops);
	debugfs_create_file("sources", 0400, folder, NULL, &sources_fops);
	debugfs_create_file("cpu", 0600, folder, NULL, &cpu_fops);
	debugfs_create_file("select", 0600, folder, NULL, &select_fops);
	debugfs_create_file("run", 0200, folder, NULL, &run_fops);
	debugfs_create_file("judge", 0200, folder, NULL, &judge_fops);
	debugfs_create_file("results", 0400, folder, NULL, &results_fops);
	return 0;
}

static void __exit loopwright_exit(void)
{
	debugfs_remove_recursive(folder);
	records_free();
}

module_init(loopwright_init);
module_exit(loopwright_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Check and measure routines that copy to and from user memory");
