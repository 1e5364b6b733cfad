"""Run the code of kernel-built objects against its contract, under each set of CPU features."""

from dataclasses import replace

from loopwright.checking import body, coverage
from loopwright.checking.check import verdict
from loopwright.code import assemble, instructions
from loopwright.code.instructions import Code, ExceptionEntry
from loopwright.errors import InputError
from loopwright.kernels import Variant, contract_of
from loopwright.linux.verify import alternatives
from loopwright.linux.verify.image import Image
from loopwright.linux.verify.outcomes import CheckError, NotProven


def run(image: Image, variant: Variant, symbol: str) -> str:
    """Run a routine under every set of features; return what was tried.

    CheckError where it breaks its contract, NotProven where it cannot be run here.
    """
    odd = sorted({e.type for e in image.entries if not e.plain})
    if odd:
        raise NotProven(f"its exception table has {', '.join(odd)}, which only the kernel handles")
    contract = contract_of(variant)
    said, over, forms = [], 0, []
    meant = frozenset(variant.alternatives)
    features = {one.feature for one in image.alternatives}
    # Code that is meant to open the access and has no alternative for it has to do so always.
    lacking = (meant & assemble.PRIVILEGED) - features
    switches_pan = coverage.PAN in features
    for taken in alternatives.sets(image.alternatives):
        code = _code(image, symbol, taken)
        gated = bool(taken & assemble.PRIVILEGED)
        names = ", ".join(sorted(taken)) or "no feature"
        how = coverage.access(code, taken | lacking, meant, switches_pan)
        forms.append(coverage.Form(f"with {names}", code, how))
        try:
            record = verdict(code, contract, f"{variant.id}-kernel", gated=gated)
        except InputError as error:
            raise CheckError(f"with {names}: {error}") from None
        if not record["passed"]:
            raise CheckError(f"with {names}: {record['failure']}", (), _listing(code))
        over = max(over, int(record["over_report_bytes"]))
        also = [*(["stac/clac emulated"] * gated), *(["cached"] * record["cached"])]
        said.append(f"{record['cases']} cases with {names}" + f" ({', '.join(also)})" * bool(also))
    proof = coverage.of(forms, contract)
    if proof.failure:
        raise CheckError(proof.failure, (), _listing(forms[0].code))
    said.append(f"{proof.cases} emulated calls" + " (cached)" * proof.cached)
    if alternatives.FIVE_LEVEL_PAGING in features:
        said.append(f"not with {alternatives.FIVE_LEVEL_PAGING}, whose user space ends elsewhere")
    if proof.said != "100 %":
        raise NotProven(f"{'; '.join(said)}; {coverage.argued(proof.said, variant)}")
    tail = f"all {len(image.entries)} entries, and both ways of all branches and conditions"
    if contract.uncopied == "at_least":
        tail += f"; after a fault it reports up to {over} bytes too many as not done"
    return f"{'; '.join(said)}; {tail}"


def over_report(image: Image, variant: Variant, symbol: str) -> int:
    """Return the most bytes beyond what had to be that a routine said were not done."""
    contract = contract_of(variant)
    every = [
        verdict(_code(image, symbol, taken), contract, f"{variant.id}-kernel")
        for taken in alternatives.sets(image.alternatives)
    ]
    return max(int(record["over_report_bytes"]) for record in every)


def _code(image: Image, symbol: str, taken: frozenset[str]) -> Code:
    """Return a routine under some features, with its own exception table.

    Entries of other routines of the object are left out, unless control gets there.
    """
    code = Code(
        isa=image.isa,
        text=alternatives.resolve(image, taken),
        entry=image.symbols[symbol],
        size=image.sizes[symbol],
        instructions=(),
        symbols=image.symbols,
        exceptions=tuple(ExceptionEntry(e.insn, e.fixup, e.type) for e in image.entries),
        loops=(),
    )
    others = [
        range(start, start + image.sizes.get(name, 0))
        for name, start in image.symbols.items()
        if name != symbol
    ]
    reached = body.of(code).steps
    own = [
        entry
        for entry in code.exceptions
        if entry.insn in reached or not any(entry.insn in other for other in others)
    ]
    return replace(code, exceptions=tuple(own))


def _listing(code: Code) -> str:
    body = code.text[code.entry : code.entry + code.size]
    lines = instructions.decode(code.isa, body, code.entry)
    return "\n".join(f"{i.address:#06x}  {i.code.hex():<24} {i.text}" for i in lines)
