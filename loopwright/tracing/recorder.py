"""Write down what an emulated core does, by hooks in C: a call takes thousands of steps."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
import unicorn
from numpy.typing import NDArray
from unicorn.unicorn import Uc, UcError

from loopwright import paths
from loopwright.tracing import native

MOST_STEPS = 4_000_000

# struct step of harness/tracing/recorder.c: of an instruction's accesses the first address and all
# bytes, and how many there were.
STEP = np.dtype(
    [
        *((name, "<u8") for name in ("address", "load", "store")),
        *((name, "<u4") for name in ("load_bytes", "store_bytes", "loads", "stores")),
        ("size", "<u8"),
    ]
)
Steps = NDArray[np.void]

_SOURCE = paths.HARNESS / "tracing" / "recorder.c"
_ACCESSES = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
_EVERYWHERE = (ctypes.c_uint64(1), ctypes.c_uint64(0))  # begin above end


class _Recording(ctypes.Structure):
    """struct recording of harness/tracing/recorder.c."""

    _fields_ = (
        ("steps", ctypes.c_void_p),
        ("room", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("stop", ctypes.c_void_p),
        ("full", ctypes.c_uint64),
    )


class Recorder:
    """The steps of an emulated core."""

    def __init__(self, core: Uc) -> None:
        """Listen to a core; InputError where the hooks cannot be built."""
        library = ctypes.CDLL(str(native.unicorn_library()))
        self._room = np.empty(MOST_STEPS, dtype=STEP)  # pages that no step reaches are never there
        stop = ctypes.cast(library.uc_emu_stop, ctypes.c_void_p)
        self._recording = _Recording(self._room.ctypes.data, MOST_STEPS, 0, stop, 0)
        hooks = _hooks()
        self._listen(core, library, unicorn.UC_HOOK_CODE, hooks.recorder_on_code)
        self._listen(core, library, _ACCESSES, hooks.recorder_on_access)

    def _listen(self, core: Any, library: ctypes.CDLL, kind: int, hook: Any) -> None:
        address, recording = ctypes.cast(hook, ctypes.c_void_p), ctypes.byref(self._recording)
        handle = ctypes.c_size_t()
        status = library.uc_hook_add(
            core._uch, ctypes.byref(handle), kind, address, recording, *_EVERYWHERE
        )
        if status != unicorn.UC_ERR_OK:
            raise UcError(status)

    @property
    def full(self) -> bool:
        """Say whether there were more steps than MOST_STEPS."""
        return bool(self._recording.full)

    @property
    def steps(self) -> Steps:
        """Return the steps so far; what is recorded next overwrites them after clear."""
        return self._room[: self._recording.count]

    def clear(self) -> None:
        """Begin anew."""
        self._recording.count = self._recording.full = 0


@cache
def _hooks() -> ctypes.CDLL:
    """Return the hooks, compiled now if they are not there yet."""
    return native.library([_SOURCE])
