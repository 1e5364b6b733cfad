/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measure all jobs of a file on a machine that needs only this program, into a file of JSON lines
 * that stays valid after any interrupt. harness/README.md describes both.
 */
#ifndef HARNESS_KIT_H
#define HARNESS_KIT_H

/* kit JOBS HASH VERSION [-o FILE | --resume FILE] [--only KERNEL[/VARIANT]]; returns exit code. */
int kit_main(const char *self, int argc, char **argv);

/* Measure the points that standard input names, a job's and a point's number a line, in order. */
int kit_worker(const char *path);

#endif
