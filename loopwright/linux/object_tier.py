"""Tier object: the objects of a patched tree, built and checked against their contracts."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath

from loopwright import kernels
from loopwright.checking import body, emulated
from loopwright.checking.check import harness_record
from loopwright.code import assemble, instructions
from loopwright.code.instructions import Code, ExceptionEntry, Instruction
from loopwright.errors import InputError
from loopwright.kernels import Variant, contract_of
from loopwright.linux import built_code, routines, trees
from loopwright.linux.build import Build, BuildError, Overlay, configured, hold, is_built
from loopwright.linux.built_code import Image
from loopwright.linux.verification import (
    Check,
    CheckError,
    NotCovered,
    NotProven,
    PatchedVariant,
    Tier,
)


def hold_to_contract(image: Image, variant: Variant, symbol: str) -> str:
    """Check a routine under every set of features; return a description of the cases.

    CheckError if it breaks its contract, NotProven if it cannot be run here.
    """
    if unsupported := ", ".join(sorted(image.handled)):
        raise NotProven(f"its exception table has {unsupported}, which only the kernel handles")
    contract = contract_of(variant)
    texts, over, configurations = [], 0, []
    variant_alternatives = frozenset(variant.alternatives)
    features = {alternative.feature for alternative in image.alternatives}
    # Code without an alternative for opening the access to user memory always has to open it.
    lacking = (variant_alternatives & assemble.PRIVILEGED) - features
    switches_pan = emulated.PAN in features
    for taken in built_code.feature_sets(image.alternatives):
        code = _routine_code(image, symbol, taken)
        privileged = bool(taken & assemble.PRIVILEGED)
        names = ", ".join(sorted(taken)) or "no feature"
        user_access = emulated.access(code, taken | lacking, variant_alternatives, switches_pan)
        configurations.append(emulated.Configuration(f"with {names}", code, user_access))
        try:
            record = harness_record(code, contract, f"{variant.id}-kernel", gated=privileged)
        except InputError as error:
            raise CheckError(f"with {names}: {error}") from None
        if not record["passed"]:
            raise CheckError(f"with {names}: {record['failure']}", (), _listing(code))
        over = max(over, int(record["over_report_bytes"]))
        remarks = [*(["stac/clac emulated"] * privileged), *(["cached"] * record["cached"])]
        texts.append(
            f"{record['cases']} cases with {names}" + f" ({', '.join(remarks)})" * bool(remarks)
        )
    proof = emulated.prove(configurations, contract)
    if proof.failure:
        raise CheckError(proof.failure, (), _listing(configurations[0].code))
    texts.append(f"{proof.cases} emulated calls" + " (cached)" * proof.cached)
    if built_code.FIVE_LEVEL_PAGING in features:
        texts.append(f"not with {built_code.FIVE_LEVEL_PAGING}, whose user space ends elsewhere")
    if proof.summary != "100 %":
        raise NotProven(f"{'; '.join(texts)}; {emulated.argued(proof.summary, variant)}")
    tail = f"all {len(image.entries)} entries, and both ways of all branches and conditions"
    if contract.uncopied == "at_least":
        tail += f"; after a fault it reports up to {over} bytes too many as not done"
    return f"{'; '.join(texts)}; {tail}"


def over_report(image: Image, variant: Variant, symbol: str) -> int:
    """Return the largest number of bytes that a routine wrongly reports as not done."""
    contract = contract_of(variant)
    records = [
        harness_record(_routine_code(image, symbol, taken), contract, f"{variant.id}-kernel")
        for taken in built_code.feature_sets(image.alternatives)
    ]
    return max(int(record["over_report_bytes"]) for record in records)


def _routine_code(image: Image, symbol: str, taken: frozenset[str]) -> Code:
    """Return a routine under some features, with its own exception table.

    Entries of the object's other routines are left out, unless control reaches them.
    """
    code = Code(
        isa=image.isa,
        text=built_code.with_features(image, taken),
        entry=image.symbols[symbol],
        size=image.sizes[symbol],
        instructions=(),
        symbols=image.symbols,
        exceptions=image.entries,
        loops=(),
    )
    others = [
        range(start, start + image.sizes.get(name, 0))
        for name, start in image.symbols.items()
        if name != symbol
    ]
    reached = body.of(code).steps
    own = (e for e in code.exceptions if e.insn in reached or not any(e.insn in o for o in others))
    return replace(code, exceptions=tuple(own))


def _listing(code: Code) -> str:
    body = code.text[code.entry : code.entry + code.size]
    lines = instructions.decode(code.isa, body, code.entry)
    return "\n".join(f"{i.address:#06x}  {i.code.hex():<24} {i.text}" for i in lines)


_UNIT = "lib/loopwright_{}.c"
_MOST_INCLUDERS = 200  # files that include a changed header, at most: each source is built
_PUT_USER = "arch/x86/lib/putuser.o"  # what __put_user() calls


@dataclass(frozen=True)
class CompiledAs:
    """The objects of a routine, and its name there; files are added source units."""

    symbol: str
    objects: tuple[str, ...]
    files: dict[str, str]


def compiled_as(variant: Variant, subject: PatchedVariant) -> CompiledAs:
    """Return the objects of a routine: of its own file, or of an added unit if it is inline."""
    target = routines.find(variant, subject.tree)
    if not target.file.endswith(".h"):
        return CompiledAs(target.name, (object_of(target.file),), {})
    unit, symbol = _UNIT.format(variant.routine), routines.symbol(variant)
    header = subject.files.get(target.file) or subject.tree.read(target.file)
    span = routines.c_function(header, target.name)
    calls = span is not None and re.search(r"\b__put_user\(", span.of(header))
    objects = (object_of(unit), *((_PUT_USER,) if calls else ()))
    return CompiledAs(symbol, objects, {unit: _unit(variant, symbol)})


def object_of(file: str) -> str:
    """Return the object that kbuild makes from a source file."""
    return str(PurePosixPath(file).with_suffix(".o"))


def including(header: str, subject: PatchedVariant, config: str) -> tuple[list[str], list[str]]:
    """Return the objects of the sources that include a header, and the sources left out.

    The latter are not built in a configuration (the text of a .config). NotProven if there are
    too many.
    """
    sources = trees.includers(subject.tree, subject.isa, header, _MOST_INCLUDERS)
    if sources is None:
        raise NotProven(
            f"more than {_MOST_INCLUDERS} files include {header}: they are not built here, but "
            "those of its small kernel by tier boot"
        )
    built_sources = [file for file in sources if is_built(subject.tree, file, config)]
    left_out = [file for file in sources if file not in built_sources]
    return [object_of(file) for file in built_sources], left_out


def _unit(variant: Variant, symbol: str) -> str:
    """Return a unit with the tree's own headers and the function around the inline code."""
    folder = kernels.load(variant.kernel).folder
    source = variant.source.read_text()
    # The tree's headers may depend on others: their users include linux/fs.h first.
    headers = ["#include <linux/fs.h>\n"]
    headers += [f"#include {h}\n" for h in routines.includes(source) if h.startswith("<")]
    for name in [h.strip('"') for h in routines.includes(source) if h.startswith('"')]:
        if routines.c_function((folder / name).read_text(), symbol):
            body = _expanded(folder / name)
            span = routines.c_function(body, symbol)
            assert span is not None
            prototype = span.of(body).partition("{")[0].rstrip() + ";\n"
            body = body[: span.start] + prototype + body[span.start :]
            return "".join([*headers, body])
    raise NotProven(f"no header of {variant.source.name} defines {symbol} around the inline code")


def _expanded(path: Path) -> str:
    """Return a header's text with the headers beside it in place of their #include lines."""

    def inline(match: re.Match[str]) -> str:
        return _expanded(path.parent / match[1])

    return re.sub(r'(?m)^#include "([^"]+)"\n', inline, path.read_text())


# The types of entries for accesses to the kernel's own memory: word reads past its end, and
# accesses that may fault.
_OVERREAD_TYPES = {"x86_64": ("EX_TYPE_ZEROPAD",), "arm64": ("EX_TYPE_LOAD_UNALIGNED_ZEROPAD",)}
_KERNEL_TYPES = {"x86_64": ("EX_TYPE_DEFAULT",), "arm64": ("EX_TYPE_KACCESS_ERR_ZERO",)}


def _check_table(image: Image, variant: Variant, routine: CompiledAs) -> str:
    """Check the exception table against the instructions and the kinds of their accesses."""
    names = [name for name in image.symbols if image.sizes[name]]
    decoded = {i.address: i for name in names for i in _instructions(image, name)}
    start = image.symbols[routine.symbol]
    end = start + image.sizes[routine.symbol]
    own_entries = [e for e in image.entries if start <= e.insn < end]
    sites = {a.site for a in image.alternatives}
    for entry in image.entries:
        where = f"entry {routine.symbol}+{entry.insn - start:#x}"
        # Entries of replacements are checked by the run with their feature.
        if entry.insn not in sites:
            _check_entry(entry, where, decoded)
        if entry in own_entries or len(routine.objects) > 1:
            _check_kind(entry, where, variant, image.isa)
        # With alternatives a routine may switch PAN off, and then use any kind of access.
        if image.isa == "arm64" and contract_of(variant).faulting and not image.alternatives:
            _check_unprivileged(decoded[entry.insn], where)
    if variant.source.suffix == ".S":
        expected = len(assemble.variant_code(variant).exceptions)
        if len(own_entries) != expected:
            raise CheckError(f"{len(own_entries)} entries, {expected} in {variant.source.name}")
    count = len(own_entries)
    result = f"{count} entries of its own, each at a load or store, each to a whole instruction"
    types = " or ".join(sorted({e.type for e in own_entries}))
    return f"{result}, each {types}" if own_entries else result


def _check_entry(entry: ExceptionEntry, where: str, decoded: Mapping[int, Instruction]) -> None:
    """Raise CheckError unless an entry leads from a load or store to a whole instruction."""
    at = decoded.get(entry.insn)
    if at is None:
        raise CheckError(f"{where} points into the middle of an instruction")
    if not at.read_bytes and not at.written_bytes:
        raise CheckError(f"{where} points at `{at.text}`, which accesses no memory")
    if entry.fixup not in decoded:
        raise CheckError(f"{where} has a fixup in the middle of an instruction")


def _check_unprivileged(at: Instruction, where: str) -> None:
    """Raise CheckError for an access with the kernel's permissions that user space would allow."""
    if not at.mnemonic.startswith(("ldtr", "sttr")):
        raise CheckError(
            f"{where} points at `{at.text}`, which accesses a user's memory with the kernel's "
            "permissions: it needs ldtr or sttr"
        )


def _check_kind(entry: ExceptionEntry, where: str, variant: Variant, isa: str) -> None:
    """Raise CheckError for an entry of the wrong type for the variant's accesses."""
    contract = contract_of(variant)
    kernels_own = _OVERREAD_TYPES[isa] if contract.overread else _KERNEL_TYPES[isa]
    allowed = body.USER_TYPES[isa] if contract.faulting else kernels_own
    if entry.type not in allowed:
        whose = "a user's memory" if contract.faulting else "the kernel's memory"
        raise CheckError(f"{where} is {entry.type}: an access to {whose} needs {allowed[0]}")


# With IBT objtool leaves single objects unchecked.
_OPTIONS = {"x86_64": ("-d X86_KERNEL_IBT",), "arm64": ()}
_OBJTOOL = (
    "--hacks=jump_label", "--hacks=noinstr", "--orc", "--retpoline", "--rethunk",
    "--static-call", "--uaccess",
)  # fmt: skip


@dataclass
class _ObjectBuild:
    """A build of a subject's objects: its folders, the objects of each routine, their images.

    objtool has the messages of kbuild's own run of it; images are the routines' linked objects, by
    symbol.
    """

    subject: PatchedVariant
    overlay: Overlay
    scratch: Path
    build: Build = field(init=False)
    compiled: dict[Variant, CompiledAs] = field(default_factory=dict)
    objtool: list[str] = field(default_factory=list)
    images: dict[str, Image] = field(default_factory=dict)

    @property
    def config(self) -> str:
        """The configuration that objects are built with."""
        return (self.build.folder / ".config").read_text()

    @property
    def objects(self) -> list[str]:
        every = (name for routine in self.compiled.values() for name in routine.objects)
        return list(dict.fromkeys(every))

    def prepare(self) -> str:
        """Configure the tree with the subject's files."""
        self.overlay.put(self.subject.files)
        self.build = prepare(self.overlay, self.subject.isa)
        without = " without IBT" * bool(_OPTIONS[self.subject.isa])
        return f"defconfig{without} in {self.build.folder}"

    def find(self) -> str:
        """Find the objects of each routine."""
        self.compiled = {
            variant: compiled_as(variant, self.subject) for variant in self.subject.variants
        }
        return "; ".join(f"{p.symbol} in {' and '.join(p.objects)}" for p in self.compiled.values())

    def make(self) -> str:
        """Build them, and the objects of changed sources that the configuration includes."""
        added = {name: text for p in self.compiled.values() for name, text in p.files.items()}
        self.overlay.put({**self.subject.files, **added})
        tree, config = self.subject.tree, self.config
        changed = [object_of(f) for f in self.subject.files if is_built(tree, f, config)]
        return self._made(list(dict.fromkeys([*self.objects, *changed])))

    def includers(self, header: str) -> str:
        """Build the includers of a changed header that the configuration includes."""
        wanted, left_out = including(header, self.subject, self.config)
        result = self._made(wanted) if wanted else "none of this configuration"
        return result + (f"; not of this configuration: {', '.join(left_out)}" if left_out else "")

    def _made(self, wanted: list[str]) -> str:
        self.objtool += build_anew(self.build, wanted)
        return f"{', '.join(wanted)} without a word of the compiler"

    def judge(self) -> str:
        """Check the messages of objtool, in the build and on copies, which it rewrites."""
        tool = self.build.folder / "tools/objtool/objtool"
        if self.subject.isa != "x86_64":
            raise NotCovered(f"there is no objtool for {self.subject.isa} in {self.subject.tree}")
        if self.objtool:
            command = self.build.command(*self.objects)
            raise CheckError(self.objtool[0].strip(), command, "\n".join(self.objtool))
        for name in self.objects:
            copy = self.scratch / Path(name).name
            shutil.copyfile(self.build.folder / name, copy)
            command = [str(tool), *_OBJTOOL, str(copy)]
            done = self.build.run(command)
            messages = [x for x in done.stdout.splitlines() if "file already has ." not in x]
            if done.returncode or messages:
                again = [*command[:-1], str(self.build.folder / name)]
                first = (messages or ["it failed"])[0].strip()
                raise CheckError(f"{name}: {first}", again, done.stdout)
        return f"nothing to say of {', '.join(self.objects)}"

    def read(self, routine: CompiledAs) -> str:
        """Link the objects of a routine and read them."""
        image = self.images[routine.symbol] = self._linked(routine)
        if routine.symbol not in image.symbols:
            raise CheckError(f"{', '.join(routine.objects)} has no {routine.symbol} in .text")
        size, entries = image.sizes[routine.symbol], len(image.entries)
        return f"{size} bytes, {entries} entries, {len(image.alternatives)} alternatives"

    def _linked(self, routine: CompiledAs) -> Image:
        objects = [self.build.folder / name for name in routine.objects]
        isa, tree = self.subject.isa, self.subject.tree
        return built_code.link(isa, objects, tree, self.build.folder, self.scratch)

    def compare_over_report(self, variant: Variant, routine: CompiledAs) -> str:
        """Compare the over-report after faults with that of the tree's own objects."""
        patched = over_report(self.images[routine.symbol], variant, routine.symbol)
        self.overlay.put({})
        _output(self.build, routine.objects, "the tree's own object does not build")
        base = over_report(self._linked(routine), variant, routine.symbol)
        return f"up to {patched} bytes after a fault, the tree's own object up to {base}"


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks: build and objtool once, the others for each routine."""
    with hold(subject.tree) as overlay, tempfile.TemporaryDirectory() as scratch:
        work = _ObjectBuild(subject, overlay, Path(scratch))
        for name, run in (("prepare", work.prepare), ("places", work.find), ("build", work.make)):
            if not (yield Check(name, run)):
                return
        for header in (file for file in subject.files if file.endswith(".h")):
            yield Check(f"includers of {header}", partial(work.includers, header))
        yield Check("objtool", work.judge)
        for variant, routine in work.compiled.items():
            yield from _routine(work, variant, routine)


def _routine(work: _ObjectBuild, variant: Variant, routine: CompiledAs) -> Tier:
    name = routine.symbol
    if not (yield Check(f"read {name}", partial(work.read, routine))):
        return
    image = work.images[name]
    yield Check(f"exception table of {name}", partial(_check_table, image, variant, routine))
    yield Check(f"alternatives of {name}", partial(_check_alternatives, image, variant))
    yield Check(f"registers of {name}", partial(_check_registers, image, variant, routine))
    yield Check(f"contract of {name}", partial(hold_to_contract, image, variant, name))
    if contract_of(variant).uncopied == "at_least" and work.subject.files:
        over = partial(work.compare_over_report, variant, routine)
        yield Check(f"over-report of {name}", over)


def prepare(overlay: Overlay, isa: str) -> Build:
    """Configure a tree once; make updates the files that a patch changes."""
    return configured(overlay, isa, f"{isa}-objects", "defconfig", _OPTIONS[isa], "prepare")


def build_anew(build: Build, objects: Sequence[str]) -> list[str]:
    """Build objects again and return the messages of objtool.

    BuildError if make fails, CheckError for any message of the compiler or assembler.
    """
    output = _output(build, objects)
    lines = [x for x in output.splitlines() if x.strip()]
    of_objtool = [x for x in lines if "objtool:" in x]
    if len(lines) > len(of_objtool):
        message = f"the build complains: {_first_message(output, 'warning')}"
        raise CheckError(message, build.command(*objects), output)
    return of_objtool


def _output(build: Build, objects: Sequence[str], failure: str = "") -> str:
    """Build objects again and return all output; BuildError with the failure's description."""
    for name in objects:
        (build.folder / name).unlink(missing_ok=True)
    # One job: two makes in one folder race in fixdep.
    done = build.make(*objects)
    if done.returncode:
        what = failure or _first_message(done.stdout, "error")
        raise BuildError(what, build.command(*objects), done.stdout)
    return done.stdout


def _first_message(output: str, word: str) -> str:
    lines = [x.strip() for x in output.splitlines() if x.strip()] or ["nothing said"]
    return next((x for x in lines if re.search(rf"\b{word}\b", x, re.IGNORECASE)), lines[0])


def _instructions(image: Image, symbol: str) -> tuple[Instruction, ...]:
    start, size = image.symbols[symbol], image.sizes[symbol]
    return instructions.decode(image.isa, image.text[start : start + size], start)


def _check_alternatives(image: Image, variant: Variant) -> str:
    """Check the alternatives: whole instructions, features that the variant's text names."""
    for alternative in image.alternatives:
        if len(alternative.replacement) > alternative.length:
            raise CheckError(f"the replacement for {alternative.feature} is longer than its place")
        try:
            instructions.decode(image.isa, alternative.replacement, alternative.replacement_address)
        except InputError as error:
            raise CheckError(f"the replacement for {alternative.feature}: {error}") from None
    names = [a.feature for a in image.alternatives]
    missing = {name for taken in routines.alternative_sets(variant) for name in taken} - {*names}
    if variant.source.suffix == ".S" and missing:
        raise CheckError(f"{', '.join(sorted(missing))} is named in the source, not in the object")
    each = [f"{name} at {names.count(name)} places" for name in dict.fromkeys(names)]
    return "; ".join(each).replace(" 1 places", " 1 place") or "none, and none is meant"


def _check_registers(image: Image, variant: Variant, routine: CompiledAs) -> str:
    """Check for writes to registers that the contract does not allow, on any path."""
    start, size = image.symbols[routine.symbol], image.sizes[routine.symbol]
    pieces = [(image.text[start : start + size], start)]
    pieces += [(a.replacement, a.replacement_address) for a in image.alternatives]
    rules = contract_of(variant)
    linkage = {"x16", "x17", "x30"} if image.isa == "arm64" else {"rsp"}
    allowed = {*rules.may_change, *rules.inputs.values(), *rules.returns.values(), *linkage}
    allowed = {built_code.wide_name(register) for register in allowed} | {*rules.zeroed}
    for code, address in pieces:
        if vectors := built_code.vector_registers(image.isa, code, address):
            named = ", ".join(sorted(vectors))
            raise CheckError(f"it uses {named}: the user's own vector registers")
        if wrong := built_code.written_registers(image.isa, code, address) - allowed:
            raise CheckError(f"it writes {', '.join(sorted(wrong))} and does not save them")
        if image.isa == "x86_64" and built_code.direction_flag(code) > 0:
            raise CheckError("it sets the direction flag and does not clear it")
        if image.isa == "arm64" and (jumps := built_code.indirect_branches(code, address)):
            raise CheckError(
                f"it has {', '.join(jumps)}: a kernel that checks branch targets (BTI) faults "
                "where one leads to a caller; ret is let through"
            )
    return "no callee-saved register is lost, none of the vectors is used"
