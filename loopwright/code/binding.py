"""The simulator's compiled Python module, and the outlines of code that it gives.

Functions of models/pipeline/loopwright_pipeline.pyi are attributes of this module. Access to one
raises InputError with the fix if the compiled module is missing or built from other sources than
the checkout's.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, reduce
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from loopwright.code.instructions import decode, no_code
from loopwright.errors import InputError
from loopwright.paths import HOME, INSTALLED

if TYPE_CHECKING:
    from loopwright_pipeline import Core as Core
    from loopwright_pipeline import arm64_forms as arm64_forms
    from loopwright_pipeline import forms as forms
    from loopwright_pipeline import loops as loops
    from loopwright_pipeline import mca as mca
    from loopwright_pipeline import parameters as parameters
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_module(), name)


@cache
def _module() -> ModuleType:
    try:
        import loopwright_pipeline
    except ImportError:
        raise InputError("the pipeline simulator is not built: run `make setup`") from None
    if not INSTALLED and getattr(loopwright_pipeline, "SOURCES", None) != _sources():
        raise InputError(
            "the pipeline simulator was built from other sources than models/pipeline/src: "
            "run `make setup`"
        )
    return loopwright_pipeline


def _sources() -> int:
    """Return the checksum of the simulator's sources, as models/pipeline/build.rs takes it."""
    files = sorted((HOME / "models" / "pipeline" / "src").rglob("*.rs"))
    return reduce(lambda crc, file: crc32(file.read_bytes(), crc), files, 0)


def version() -> str:
    """Return the simulator's version."""
    return str(_module().__version__)


def file() -> Path:
    """Return the file of the compiled simulator."""
    return Path(str(_module().__file__))


# Features of every core of an ISA: the first x86-64 CPUs, and their privileged instructions.
_BASE = {
    "x86_64": frozenset(
        {
            "intel8086", "intel186", "intel286", "intel386", "intel486", "x64", "fpu", "fpu287",
            "fpu387", "cpuid", "tsc", "msr", "cx8", "sep", "cmov", "mmx", "fxsr", "sse", "sse2",
            "clflush", "syscall", "multibytenop", "pause", "rdpmc", "smm",
        }
    ),
    "arm64": frozenset({"lor"}),  # mandatory since Armv8.1, and not in /proc/cpuinfo
}  # fmt: skip
# Names in /proc/cpuinfo of extensions that the decoders name otherwise, in lower case.
_CPUINFO = {
    "x86_64": {
        "avx512_ifma": "avx512ifma", "avx512_vbmi": "avx512vbmi", "clfsh": "clflush",
        "cmpxchg16b": "cx16", "d3now": "3dnow", "d3nowext": "3dnowext", "hle_or_rtm": "rtm",
        "lzcnt": "abm", "monitorx": "mwaitx", "prefetchw": "3dnowprefetch", "sha": "sha_ni",
        "skinit_or_svm": "svm", "sse3": "pni",
    },
    "arm64": {
        "bfloat16": "bf16", "compnum": "fcma", "crc": "crc32", "dotprod": "asimddp",
        "flagmanip": "flagm2", "fp_16_v8_2a": "asimdfhm", "fp_f16": "fphp", "frintts": "frint",
        "lse": "atomics", "memtag": "mte", "pauth": "paca", "rcpc": "lrcpc", "rcpc2": "ilrcpc",
        "rdma": "asimdrdm", "simd": "asimd", "simd_f16": "asimdhp",
    },
}  # fmt: skip


class Outline(NamedTuple):
    """The end of a piece of code, and its kinds of instructions.

    ends_in_branch: by a direct branch. straight: control leaves it by no call, return or indirect
    jump, and no string instruction repeats. needs: features by their names in /proc/cpuinfo,
    without those of every core of the ISA; instructions that other cores run as a nop need nothing.
    """

    ends_in_branch: bool
    straight: bool
    needs: frozenset[str]


def outlines(isa: str, codes: Sequence[bytes]) -> list[Outline | InputError]:
    """Return the outline of each code, or an error where it is empty or not code."""
    if not codes:
        return []
    rows = _module().outline(isa, codes)
    return [_outline(isa, code, row) for code, row in zip(codes, rows, strict=True)]


def outline(isa: str, code: bytes) -> Outline:
    """Return the outline of one code; InputError if it is empty or not code."""
    (result,) = outlines(isa, [code])
    if isinstance(result, InputError):
        raise result
    return result


def lacking(isa: str, code: bytes, needs: Iterable[str], features: frozenset[str]) -> str:
    """Return the instruction that needs a missing feature and the feature, in words, or ""."""
    if not frozenset(needs) - features:
        return ""
    with suppress(InputError):  # the disassembler for text knows fewer instructions
        for ins in decode(isa, code):
            if missing := outline(isa, ins.code).needs - features:
                return f"{ins.mnemonic} needs {', '.join(sorted(missing))}"
    return f"it needs {', '.join(sorted(frozenset(needs) - features))}"


def _outline(
    isa: str, code: bytes, row: int | tuple[bool, bool, list[str]]
) -> Outline | InputError:
    if not code:
        return InputError("there is no code to decode: it is empty")
    if isinstance(row, int):
        return no_code(isa, code, row)
    branch, straight, extensions = row
    return Outline(branch, straight, _needs(isa, tuple(extensions)))


@cache
def _needs(isa: str, extensions: tuple[str, ...]) -> frozenset[str]:
    names = (_CPUINFO[isa].get(name.lower(), name.lower()) for name in extensions)
    return frozenset(names) - _BASE[isa]
