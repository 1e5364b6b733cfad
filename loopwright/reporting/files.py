"""Write files so that they appear whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopwright.errors import InputError


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Yield a scratch folder whose content moves into out when the block ends well.

    Entries of out with the same name are replaced; others stay. When the block fails or is
    interrupted, out is as it was.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=out))
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; name another folder") from None
    try:
        yield scratch
        for made in sorted(scratch.iterdir()):
            target = out / made.name
            if target.is_dir():
                shutil.rmtree(target)
            made.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
