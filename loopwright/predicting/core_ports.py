"""What runs on which port of a core, by core.toml and instructions.csv."""

from dataclasses import dataclass

from loopwright.microarchs import Microarch
from loopwright.predicting.forms import forms

# Kinds of uops: the parameter that says where they run, or by ISA a form that is one such uop.
_KINDS: dict[str, str | dict[str, str]] = {
    "integer": "ports.alu",
    "shift": {"x86_64": "shl r64,i8", "arm64": "ubfm x,x,i,i"},
    "multiply": {"x86_64": "imul r64,r64", "arm64": "madd x,x,x,x"},
    "branch": {"x86_64": "jne rel", "arm64": "b.cond"},
    "load": "ports.load",
    "store address": "ports.store_address",
    "store data": "ports.store_data",
    "vector integer": {"x86_64": "paddd x,x", "arm64": "add 4s"},
    "shuffle": {"x86_64": "pshufd x,x,i8", "arm64": "zip1 4s"},
    "float add": {"x86_64": "addps x,x", "arm64": "fadd 4s"},
    "float multiply": {"x86_64": "mulps x,x", "arm64": "fmul 4s"},
    "float divide": {"x86_64": "divps x,x", "arm64": "fdiv 4s"},
}


@dataclass(frozen=True)
class Use:
    """A kind of uops and the ports that take it, each by its one-letter name, in their order."""

    kind: str
    ports: str


def names(core: Microarch) -> str:
    """Return the names of a core's ports, a letter each; nothing where it has no figures."""
    return str(core.value("ports.names") or "")


def uses(core: Microarch) -> list[Use]:
    """Return where each kind of uops runs; a kind that the core has no figures of is left out."""
    known = forms(core.id)
    found = []
    for kind, where in _KINDS.items():
        taken = core.value(where) if isinstance(where, str) else known.get(where[core.isa])
        text = taken["ports"].rpartition("*")[2] if isinstance(taken, dict) else str(taken or "")
        ports = "".join(name for name in names(core) if name in text)
        if ports:
            found.append(Use(kind, ports))
    return found


def called(core: Microarch) -> dict[str, str]:
    """Return what the vendor calls each port, by its letter; p and the letter where unnamed."""
    given = core.parameters.get("port_names", {})
    return {letter: str(given.get(letter, f"p{letter}")) for letter in names(core)}
