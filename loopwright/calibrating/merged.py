"""The uops of what stores bytes and words, where the cache takes cycles to merge these.

Blockers among such stores take longer than ports ask for, and show uops that are none.
What stores more and is else the same tells the uops; what merging takes is a rule of memory.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.learn import Learned

_NARROW = r"(?<=[mr])(?:8|16)\b"  # of memory and registers, in the name of a form
_ALL = r"(?<=[mri])(?:8|16)\b"  # of constants, too
_WIDE = "32", "64"


def uops(learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned with the uops of narrow stores as their wide relatives have them."""
    cycles, _ = learned.rules.get("memory.commit_narrow_cycles", (0, ""))
    if not cycles:
        return learned
    known = dict(learned.uops)
    for form in forms:
        if form.memory is None or not form.memory.narrow or form.name not in known:
            continue
        for name in _relatives(form.name):
            other = learned.uops.get(name)
            if other is not None and other.ports is not None:
                known[form.name] = replace(other, why=f"as {name}; {other.why}")
                break
    return replace(learned, uops=known)


def _relatives(name: str) -> Iterator[str]:
    """Yield the names that a form has whose memory is wider."""
    for narrow in (_NARROW, _ALL):
        for bits in _WIDE:
            yield re.sub(narrow, bits, name)
