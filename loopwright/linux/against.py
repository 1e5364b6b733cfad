"""See a kernel as a Linux tree has it: with the tree's own code as the baseline."""

from collections.abc import Iterator
from contextlib import contextmanager

from loopwright.code.assemble import NotAssembledError
from loopwright.errors import InputError
from loopwright.kernels import Kernel
from loopwright.linux import own_code
from loopwright.linux.sources import Tree


@contextmanager
def against(kernel: Kernel, tree: Tree) -> Iterator[tuple[Kernel, dict[str, str]]]:
    """Yield a kernel to study against a tree, and by routine what its baseline is, as a sentence.

    Where the tree's functions are other code than the kernel's baselines, they are variants of
    it (tree:VERSION) and its baselines until the context ends.
    """
    notes, other = {}, False
    for name, routine in kernel.routines.items():
        try:
            own = own_code.like(kernel, routine, tree)
        except NotAssembledError:
            notes[name] = (
                f"Compared with {routine.baseline}, not with the tree's own code: that does not "
                "compile outside of a kernel build (loopwright baseline shows why)."
            )
            continue
        except InputError as error:
            notes[name] = f"Compared with {routine.baseline}, not with the tree's own code: {error}"
            continue
        if own and own.name == routine.baseline:
            notes[name] = f"{own.name} assembles to the code that Linux {tree.version} has."
        else:
            notes[name], other = f"The baseline is the code of Linux {tree.version} itself.", True
    if not other:
        yield kernel, notes
        return
    with own_code.beside(kernel.id, tree) as with_own:
        yield with_own, notes
