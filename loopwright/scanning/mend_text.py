"""Say at length how a mend is made: in assembly, or by what one tells a compiler."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from loopwright.scanning.candidates import Candidate
from loopwright.scanning.encodings import taking
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.mends import NEVER_MIND, NONE, Effect, Mend

_COMPILED = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".rs")
_RUST = ".rs"
_INCLUDED = (".h", ".hpp")  # flags are those of the file that includes it


def text(mend: Mend, loop: ScannedLoop, alike: int, before: bytes = b"") -> str:
    """Say what is to be done about a loop, what it costs in bytes and what it brings.

    alike is how many loops its routine has, which a compiler aligns together; before is the code of
    the routine up to the loop, whose instructions may be made longer in the place of padding.
    """
    if mend.words == NEVER_MIND:
        return "not needed: no core asked for gains enough"
    if mend.words == NONE:
        return f"no fix: {mend.note}"
    if mend.candidate is None:
        return ""
    parts = [_how(mend.candidate, loop, alike, before), _brings(mend)]
    if mend.note:
        parts.append(mend.note)
    return "; ".join(parts)


def _how(one: Candidate, loop: ScannedLoop, alike: int, before: bytes) -> str:
    file, _, line = loop.line.rpartition(":")
    if file.endswith(_COMPILED):
        return _told(one, loop, alike, file)
    here = f"the label of {file}:{line}" if file else f"the label at {loop.where}"
    said = f"in assembly: {_written(one, loop, here, before)}"
    if not file and one.kind in ("align", "routine"):
        said += f"; of a compiler: {_told(one, loop, alike, '')}"
    return said


def _written(one: Candidate, loop: ScannedLoop, here: str, before: bytes) -> str:
    power = one.alignment.bit_length() - 1
    if one.kind == "routine":
        return f"`.p2align {power}` before {loop.function}, {_bytes(one)} outside of it"
    if one.encoded:
        at = loop.address + one.encoded.at
        return f"`{one.encoded.how}` at {at:#x}, {one.encoded.longer:+d} B"
    entered = "executed where control falls into the loop"
    if one.kind == "align":
        return f"`.p2align {power}` before {here}, {_bytes(one)} of nops, {entered}"
    nops = f".nops {one.pad}" if loop.isa == "x86_64" else _nops(one.pad // 4)
    if one.kind == "align, pad":
        return f"`.p2align {power}` and `{nops}` before {here}, {_bytes(one)}, {entered}"
    longer = taking(before, one.pad) if loop.isa == "x86_64" else ""
    instead = f", or instead `{longer}` before it in {loop.function}" if longer else ""
    return f"`{nops}` before {here}, {entered}{instead}"


def _nops(count: int) -> str:
    return "nop" if count == 1 else f".rept {count}; nop; .endr"


def _told(one: Candidate, loop: ScannedLoop, alike: int, file: str) -> str:
    if file.endswith(_RUST):
        return _told_rustc(one)
    unit = "the flags of its file"
    if file.endswith(_INCLUDED):
        unit = f"the flags of the file that includes {file}"
    elif file:
        unit = f"CFLAGS_{PurePosixPath(file).stem}.o"
    if one.kind == "routine":
        return (
            f"`__attribute__((aligned({one.alignment})))` on {loop.written}(), {_bytes(one)}; or "
            f"`-falign-functions={one.alignment}` in {unit}, which pads every function there"
        )
    function = f"{loop.written}()" if loop.function else "its function"
    return (
        f'`__attribute__((optimize("align-loops={one.alignment}")))` on {function}, '
        f"{_bytes(one)}{_of_all(one, loop, alike)}; or `-falign-loops={one.alignment}` in {unit}, "
        "which pads every loop there"
    )


def _told_rustc(one: Candidate) -> str:
    """Say what rustc takes, which aligns all of a crate alike."""
    if one.kind == "routine":
        flag = f"-Zmin-function-alignment={one.alignment}"
        every = "which pads every function there"
        return f"`{flag}` (rustc nightly) for its crate, {_bytes(one)}, {every}"
    flag = f"-Cllvm-args=--align-loops={one.alignment}"
    return f"`{flag}` for its crate, {_bytes(one)} for this loop, which pads every loop there"


def _of_all(one: Candidate, loop: ScannedLoop, alike: int) -> str:
    """Say what the other loops of a function cost that are aligned with one."""
    most = one.alignment - 1
    if not loop.function:
        return f" for this loop, and up to {most} B for each other one of that function"
    if alike == 1:
        return ""
    return f" for this loop, +{alike * most} B at most for all {alike} of the function"


def _bytes(one: Candidate) -> str:
    if one.expected == one.most:
        return f"+{one.most} B"
    return f"+{one.expected:.0f} B expected, +{one.most} B at most"


def _brings(mend: Mend) -> str:
    said = [f"{core} {e.now:.2f} -> {e.after:.2f}" for core, e in _moved(mend).items()]
    others = len(mend.effects) - len(said)
    rest = f", {others} other{'s' * (others > 1)} within 1 %" if others else ""
    return f"predicted cycles an iteration: {', '.join(said)}{rest}"


def _moved(mend: Mend) -> Mapping[str, Effect]:
    return {c: e for c, e in mend.effects.items() if abs(e.after - e.now) > 0.01 * e.now}
