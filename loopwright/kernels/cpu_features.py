"""Names of the CPU features that a variant can ask for, as /proc/cpuinfo has them.

Besides them stand names that Linux knows and /proc/cpuinfo leaves out: arm64's pan, epan, uao.
"""

from collections.abc import Iterable
from pathlib import Path

from loopwright.errors import InputError, unknown

_X86_64 = """
3dnowprefetch abm adx aes amx_bf16 amx_complex amx_fp16 amx_int8 amx_tile apx avx avx10_1
avx2 avx512_4fmaps avx512_4vnniw avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2
avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx512bw avx512cd avx512dq avx512er
avx512f avx512ifma avx512pf avx512vbmi avx512vl avx_ifma avx_ne_convert avx_vnni
avx_vnni_int16 avx_vnni_int8 bmi1 bmi2 cldemote clflush clflushopt clwb clzero cmov
cmpccxadd cx16 cx8 enqcmd erms f16c fma fma4 fpu fsgsbase fsrc fsrm fsrs fxsr fzrm gfni hle
hypervisor ibt invpcid la57 lfence_rdtsc lm misalignsse mmx mmxext monitor movbe movdir64b
movdiri mpx mwaitx nopl nx ospke pclmulqdq pcid pdpe1gb pku pni popcnt prefetchi ptwrite
rdpid rdpru rdrand rdseed rdtscp rep_good retpoline rethunk rtm serialize sha512 sha_ni sm3
sm4 smap smep sse sse2 sse4_1 sse4_2 sse4a ssse3 svm syscall tbm topoext tsc umip unret
user_shstk vaes vmmcall vmx vpclmulqdq waitpkg wbnoinvd x2apic xenpv xgetbv1 xop xsave
xsavec xsaveopt xsaves
"""
_ARM64 = """
aes asimd asimddp asimdfhm asimdhp asimdrdm atomics bf16 bti cpuid crc32 cssc dcpodp dcpop
dgh dit ebf16 ecv epan evtstrm fcma flagm flagm2 fp fphp frint hbc i8mm ilrcpc jscvt lrcpc
lrcpc3 lse128 mops mte mte3 paca pacg pan pmull rng rpres sb sha1 sha2 sha3 sha512 sm3 sm4
sme sme2 ssbs sve sve2 sve2p1 sveaes svebf16 svebitperm svei8mm svepmull svesha3 svesm4
uao uscat wfxt
"""
NAMES = {"x86_64": frozenset(_X86_64.split()), "arm64": frozenset(_ARM64.split())}


def check(names: Iterable[str], isa: str, path: Path) -> tuple[str, ...]:
    """Return names of features; InputError that names the kernel.toml for one that is unknown."""
    found = tuple(names)
    for name in found:
        if name not in NAMES[isa]:
            said = str(unknown("CPU feature", name, NAMES[isa]))
            if name.removeprefix("no") in NAMES[isa]:
                said += f'; that {name[2:]} is off is switched_off = ["{name[2:]}"]'
            raise InputError(f"{path}: {said}")
    return found
