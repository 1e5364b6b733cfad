"""Tier object: the patched objects, built by the tree's own makefiles and looked at closely."""

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from loopwright.code import instructions
from loopwright.code.instructions import Instruction
from loopwright.errors import InputError
from loopwright.kernels import Variant, contract_of
from loopwright.linux import routine
from loopwright.linux.verify import contract, entries, image, register_use, units
from loopwright.linux.verify.building import Build, BuildError, configured
from loopwright.linux.verify.image import Image
from loopwright.linux.verify.outcomes import Check, CheckError, NotCovered, Tier
from loopwright.linux.verify.overlay import Overlay, hold
from loopwright.linux.verify.subject import PatchedVariant
from loopwright.linux.verify.units import CompiledAs

# With IBT objtool leaves single objects unchecked.
_OPTIONS = {"x86_64": ("-d X86_KERNEL_IBT",), "arm64": ()}
_OBJTOOL = (
    "--hacks=jump_label", "--hacks=noinstr", "--orc", "--retpoline", "--rethunk",
    "--static-call", "--uaccess",
)  # fmt: skip


@dataclass
class _Work:
    """A subject being built: where, and what has been read of its objects so far."""

    subject: PatchedVariant
    overlay: Overlay
    build: Build
    scratch: Path
    objtool: list[str] = field(default_factory=list)  # what kbuild's own run of it said

    @property
    def config(self) -> str:
        """Return the configuration that objects are built with."""
        return (self.build.folder / ".config").read_text()


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks: build and objtool once, the others for each routine."""
    with hold(subject.tree) as overlay, tempfile.TemporaryDirectory() as scratch:
        prepared: list[Build] = []
        if not (yield Check("prepare", lambda: _prepare(subject, overlay, prepared))):
            return
        work = _Work(subject, overlay, prepared[0], Path(scratch))
        places: dict[Variant, CompiledAs] = {}
        if not (yield Check("places", lambda: _find(subject, places))):
            return
        if not (yield Check("build", lambda: _build(work, places))):
            return
        for header in (file for file in subject.files if file.endswith(".h")):
            yield Check(f"includers of {header}", partial(_includers, work, header))
        yield Check("objtool", lambda: _objtool(work, places))
        for variant, place in places.items():
            yield from _routine(work, variant, place)


def _routine(work: _Work, variant: Variant, place: CompiledAs) -> Tier:
    read: list[Image] = []
    name = place.symbol
    if not (yield Check(f"read {name}", lambda: _read(work, place, read))):
        return
    found = read[0]
    yield Check(f"exception table of {name}", lambda: _table(found, variant, place))
    yield Check(f"alternatives of {name}", lambda: _alternatives(found, variant))
    yield Check(f"registers of {name}", lambda: _registers(found, variant, place))
    yield Check(f"contract of {name}", lambda: contract.run(found, variant, name))
    if contract_of(variant).uncopied == "at_least" and work.subject.files:
        yield Check(f"over-report of {name}", lambda: _over_report(work, found, variant, place))


def prepare(overlay: Overlay, isa: str) -> Build:
    """Configure a tree once; what a patch changes is brought up to date by make."""
    return configured(overlay, isa, f"{isa}-objects", "defconfig", _OPTIONS[isa], "prepare")


def build_anew(build: Build, wanted: Sequence[str]) -> list[str]:
    """Build objects anew and return what objtool said.

    BuildError where make fails, CheckError where the compiler or assembler has anything to say.
    """
    for name in wanted:
        (build.folder / name).unlink(missing_ok=True)
    # One job: a folder that is entered twice at once races with itself in fixdep.
    done = build.make(*wanted)
    command = build.command(*wanted)
    if done.returncode:
        raise BuildError(f"{_first(done.stdout, 'error')}", command, done.stdout)
    lines = [x for x in done.stdout.splitlines() if x.strip()]
    of_objtool = [x for x in lines if "objtool:" in x]
    if len(lines) > len(of_objtool):
        raise CheckError(
            f"the build complains: {_first(done.stdout, 'warning')}", command, done.stdout
        )
    return of_objtool


def _prepare(subject: PatchedVariant, overlay: Overlay, prepared: list[Build]) -> str:
    overlay.put(subject.files)
    prepared.append(prepare(overlay, subject.isa))
    without = " without IBT" * bool(_OPTIONS[subject.isa])
    return f"defconfig{without} in {prepared[0].folder}"


def _find(subject: PatchedVariant, places: dict[Variant, CompiledAs]) -> str:
    places |= {variant: units.place(variant, subject) for variant in subject.variants}
    return "; ".join(f"{p.symbol} in {' and '.join(p.objects)}" for p in places.values())


def _build(work: _Work, places: dict[Variant, CompiledAs]) -> str:
    files = {name: text for place in places.values() for name, text in place.files.items()}
    work.overlay.put({**work.subject.files, **files})
    wanted = [o for place in places.values() for o in place.objects]
    return _make(work, list(dict.fromkeys([*wanted, *units.compiled(work.subject, work.config)])))


def _includers(work: _Work, header: str) -> str:
    """Build what includes a header that changed, as far as the configuration has it."""
    wanted, left_out = units.including(header, work.subject, work.config)
    said = _make(work, wanted) if wanted else "none of this configuration"
    return said + (f"; not of this configuration: {', '.join(left_out)}" if left_out else "")


def _make(work: _Work, wanted: list[str]) -> str:
    work.objtool += build_anew(work.build, wanted)
    return f"{', '.join(wanted)} without a word of the compiler"


def _first(output: str, word: str) -> str:
    lines = [x.strip() for x in output.splitlines() if x.strip()] or ["nothing said"]
    return next((x for x in lines if re.search(rf"\b{word}\b", x, re.IGNORECASE)), lines[0])


def _objtool(work: _Work, places: dict[Variant, CompiledAs]) -> str:
    """Judge by what objtool says, in the build and of copies: it rewrites them and exits with 0."""
    tool = work.build.folder / "tools/objtool/objtool"
    if work.subject.isa != "x86_64":
        raise NotCovered(f"there is no objtool for {work.subject.isa} in {work.subject.tree}")
    if work.objtool:
        command = work.build.command(*(o for place in places.values() for o in place.objects))
        raise CheckError(work.objtool[0].strip(), command, "\n".join(work.objtool))
    looked = []
    for name in dict.fromkeys(o for place in places.values() for o in place.objects):
        copy = work.scratch / Path(name).name
        shutil.copyfile(work.build.folder / name, copy)
        command = [str(tool), *_OBJTOOL, str(copy)]
        done = work.build.run(command)
        said = [x for x in done.stdout.splitlines() if "file already has ." not in x]
        if done.returncode or said:
            again = [*command[:-1], str(work.build.folder / name)]
            raise CheckError(f"{name}: {(said or ['it failed'])[0].strip()}", again, done.stdout)
        looked.append(name)
    return f"nothing to say of {', '.join(looked)}"


def _read(work: _Work, place: CompiledAs, read: list[Image]) -> str:
    objects = [work.build.folder / name for name in place.objects]
    isa, tree = work.subject.isa, work.subject.tree
    read.append(image.link(isa, objects, tree, work.build.folder, work.scratch))
    if place.symbol not in read[0].symbols:
        raise CheckError(f"{', '.join(place.objects)} has no {place.symbol} in .text")
    size = read[0].sizes[place.symbol]
    return f"{size} bytes, {len(read[0].entries)} entries, {len(read[0].alternatives)} alternatives"


def _instructions(found: Image, symbol: str) -> tuple[Instruction, ...]:
    start, size = found.symbols[symbol], found.sizes[symbol]
    return instructions.decode(found.isa, found.text[start : start + size], start)


def _table(found: Image, variant: Variant, place: CompiledAs) -> str:
    """Hold the exception table to the instructions and to what their accesses need."""
    names = [name for name in found.symbols if found.sizes[name]]
    instructions = {i.address: i for name in names for i in _instructions(found, name)}
    return entries.judge(found, variant, place, instructions)


def _alternatives(found: Image, variant: Variant) -> str:
    """Read the alternatives back: whole instructions, features that the variant's text names."""
    for one in found.alternatives:
        if len(one.replacement) > one.length:
            raise CheckError(f"the replacement for {one.feature} is longer than its place")
        if one.replacement:
            try:
                instructions.decode(found.isa, one.replacement, one.replacement_address)
            except InputError as error:
                raise CheckError(f"the replacement for {one.feature}: {error}") from None
    have = {a.feature for a in found.alternatives}
    want = {name for names in routine.alternative_sets(variant) for name in names}
    if variant.source.suffix == ".S" and want - have:
        raise CheckError(
            f"{', '.join(sorted(want - have))} is named in the source, not in the object"
        )
    names = [a.feature for a in found.alternatives]
    each = [f"{name} at {names.count(name)} places" for name in dict.fromkeys(names)]
    return "; ".join(each).replace(" 1 places", " 1 place") or "none, and none is meant"


def _registers(found: Image, variant: Variant, place: CompiledAs) -> str:
    """Look for writes to registers that the contract does not give away, on any path."""
    start, size = found.symbols[place.symbol], found.sizes[place.symbol]
    pieces = [(found.text[start : start + size], start)]
    pieces += [(a.replacement, a.replacement_address) for a in found.alternatives]
    rules = contract_of(variant)
    allowed = {*rules.may_change, *rules.inputs.values(), *rules.returns.values(), *_linkage(found)}
    allowed = {register_use.wide(register) for register in allowed}
    for code, address in pieces:
        if vectors := register_use.vector(found.isa, code, address):
            raise CheckError(
                f"it uses {', '.join(sorted(vectors))}: the user's own vector registers"
            )
        if wrong := register_use.written(found.isa, code, address) - allowed - set(rules.zeroed):
            raise CheckError(f"it writes {', '.join(sorted(wrong))} and does not save them")
        if found.isa == "x86_64" and register_use.direction_flag(code) > 0:
            raise CheckError("it sets the direction flag and does not clear it")
        if found.isa == "arm64" and (jumps := register_use.branches(code, address)):
            raise CheckError(
                f"it has {', '.join(jumps)}: a kernel that checks branch targets (BTI) faults "
                "where one leads to a caller; ret is let through"
            )
    return "no callee-saved register is lost, none of the vectors is used"


def _linkage(found: Image) -> set[str]:
    return {"x16", "x17", "x30"} if found.isa == "arm64" else {"rsp"}


def _over_report(work: _Work, found: Image, variant: Variant, place: CompiledAs) -> str:
    """Compare with the objects of the tree as it is what is reported beyond what had to be."""
    patched = contract.over_report(found, variant, place.symbol)
    work.overlay.put({})
    for name in place.objects:
        (work.build.folder / name).unlink(missing_ok=True)
    done = work.build.make(*place.objects)
    if done.returncode:
        raise BuildError(
            "the tree's own object does not build", work.build.command(*place.objects), done.stdout
        )
    objects = [work.build.folder / name for name in place.objects]
    isa, tree = work.subject.isa, work.subject.tree
    theirs = image.link(isa, objects, tree, work.build.folder, work.scratch)
    base = contract.over_report(theirs, variant, place.symbol)
    return f"up to {patched} bytes after a fault, the tree's own object up to {base}"
