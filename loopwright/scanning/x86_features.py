"""Numbers by which a Linux kernel for x86 knows features, of those that code is patched for."""

# Of each word of 32: the bits of features by their names in /proc/cpuinfo. Words 0 to 18 but for 3,
# 7, 8 and 11 are registers of CPUID (leaf 1, 7, 0xd, 0x80000001, 0x80000008: Intel SDM volume 2A,
# AMD APM volume 3); those four are Linux's own, and here are bits that 6.1 and 6.12 agree on.
_WORDS = {
    0: {"fpu": 0, "tsc": 4, "cx8": 8, "cmov": 15, "mmx": 23, "fxsr": 24, "sse": 25, "sse2": 26},
    1: {"syscall": 11, "nx": 20, "pdpe1gb": 26, "rdtscp": 27, "lm": 29},
    3: {"rep_good": 16, "nopl": 20, "always": 21},
    4: {"pni": 0, "pclmulqdq": 1, "ssse3": 9, "fma": 12, "cx16": 13, "pcid": 17, "sse4_1": 19,
        "sse4_2": 20, "x2apic": 21, "movbe": 22, "popcnt": 23, "aes": 25, "xsave": 26, "avx": 28,
        "f16c": 29, "rdrand": 30, "hypervisor": 31},
    6: {"svm": 2, "abm": 5, "sse4a": 6, "misalignsse": 7, "3dnowprefetch": 8, "topoext": 22},
    7: {"retpoline": 12},
    8: {"vmmcall": 15, "xenpv": 16},
    9: {"fsgsbase": 0, "bmi1": 3, "hle": 4, "avx2": 5, "smep": 7, "bmi2": 8, "erms": 9,
        "invpcid": 10, "rtm": 11, "avx512f": 16, "avx512dq": 17, "rdseed": 18, "adx": 19,
        "smap": 20, "avx512ifma": 21, "clflushopt": 23, "clwb": 24, "avx512cd": 28, "sha_ni": 29,
        "avx512bw": 30, "avx512vl": 31},
    10: {"xsaveopt": 0, "xsavec": 1, "xgetbv1": 2, "xsaves": 3},
    11: {"rethunk": 14, "unret": 15},
    12: {"avx_vnni": 4, "avx512_bf16": 5, "fzrm": 10, "fsrs": 11, "fsrc": 12},
    13: {"clzero": 0, "wbnoinvd": 9},
    16: {"avx512vbmi": 1, "umip": 2, "pku": 3, "ospke": 4, "waitpkg": 5, "avx512_vbmi2": 6,
         "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512_vnni": 11, "la57": 16, "rdpid": 22,
         "movdiri": 27, "movdir64b": 28},
    18: {"fsrm": 4, "serialize": 14, "ibt": 20},
}  # fmt: skip

NUMBERS = {name: 32 * word + bit for word, bits in _WORDS.items() for name, bit in bits.items()}
ALWAYS = NUMBERS["always"]  # what every CPU is patched for
