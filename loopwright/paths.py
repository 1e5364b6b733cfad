"""The installation: its version, its folders, and those that it writes to."""

import os
from importlib import metadata
from pathlib import Path

from loopwright.errors import InputError

VERSION = metadata.version("loopwright")  # as models/pipeline/Cargo.toml declares it
_PACKAGE = Path(__file__).resolve().parent
INSTALLED = (_PACKAGE / "shipped").is_dir()
# Holds kernels/, models/ and harness/: a wheel has them inside of the package.
HOME = _PACKAGE / "shipped" if INSTALLED else _PACKAGE.parent
HARNESS = HOME / "harness"
BUILD_FIX = "let LOOPWRIGHT_BUILD name another folder"  # for errors of writing to build_dir


def kernels_root() -> Path:
    """Return the folder that holds the kernels: $LOOPWRIGHT_KERNELS or what is shipped."""
    return _named("LOOPWRIGHT_KERNELS", HOME / "kernels")


def models_root() -> Path:
    """Return the folder that holds the cores: $LOOPWRIGHT_MODELS or what is shipped."""
    return _named("LOOPWRIGHT_MODELS", HOME / "models")


def _named(variable: str, usual: Path) -> Path:
    """Return the folder that a variable names, else the usual one; InputError if missing."""
    named = os.environ.get(variable)
    path = Path(named) if named else usual
    if not path.is_dir():
        shown_path = f"{variable}={named}" if named else str(path)
        raise InputError(f"{shown_path} is not a folder; let {variable} name one that there is")
    return path


def build_dir() -> Path:
    """Return the folder for objects and built harness parts.

    That is $LOOPWRIGHT_BUILD, else build/ of the checkout or, installed, of the cache.
    """
    usual = (cache_dir() if INSTALLED else HOME) / "build"
    return Path(os.environ.get("LOOPWRIGHT_BUILD") or usual)


def sysroot() -> Path:
    """Return the parent of /proc and /sys: $LOOPWRIGHT_SYSROOT, or /."""
    return Path(os.environ.get("LOOPWRIGHT_SYSROOT") or "/")


def data_dir() -> Path:
    """Return the folder for measurements, which cannot be reproduced."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "loopwright"


def cache_dir() -> Path:
    """Return the folder for downloads that outlive a checkout's build, e.g. kernel trees."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("LOOPWRIGHT_CACHE") or Path(base) / "loopwright")
