/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measure all jobs of a file on a machine that has nothing but this program, into a file of lines
 * of JSON that any interrupt leaves valid. harness/README.md describes both.
 */
#ifndef HARNESS_KIT_H
#define HARNESS_KIT_H

/* kit JOBS HASH VERSION [-o FILE | --resume FILE] [--only KERNEL[/VARIANT]]; returns exit code. */
int kit_main(const char *self, int argc, char **argv);

/* Measure the points that standard input names, a job's and a point's number a line, in order. */
int kit_worker(const char *path);

#endif
