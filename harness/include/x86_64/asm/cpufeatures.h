/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LW_ASM_CPUFEATURES_H
#define LW_ASM_CPUFEATURES_H

/*
 * The kernel numbers its features and decides at boot. Here a feature is 1 where the code is
 * assembled for CPUs that have it (-DLW_TAKE_<feature>), else 0.
 */
#ifdef LW_TAKE_X86_FEATURE_ERMS
#define X86_FEATURE_ERMS 1
#else
#define X86_FEATURE_ERMS 0
#endif

#ifdef LW_TAKE_X86_FEATURE_SMAP
#define X86_FEATURE_SMAP 1
#else
#define X86_FEATURE_SMAP 0
#endif

#ifdef LW_TAKE_X86_FEATURE_LFENCE_RDTSC
#define X86_FEATURE_LFENCE_RDTSC 1
#else
#define X86_FEATURE_LFENCE_RDTSC 0
#endif

#ifdef LW_TAKE_X86_FEATURE_ADX
#define X86_FEATURE_ADX 1
#else
#define X86_FEATURE_ADX 0
#endif

#ifdef LW_TAKE_X86_FEATURE_FSRM
#define X86_FEATURE_FSRM 1
#else
#define X86_FEATURE_FSRM 0
#endif

#define ALT_NOT(feature) (1 - feature)

#endif
