"""Predictions of every model for given code.

OSACA takes minutes for the blocks that models are held to: what outside models answered is kept in
build/answers until they, the core or the code that asks them change.
"""

import csv
import hashlib
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pandas as pd

import loopwright as lw
from loopwright import files, paths
from loopwright.errors import InputError
from loopwright.predicting.models import MODELS
from loopwright.predicting.pipeline import Pipeline
from loopwright.reporting import findings

MODEL_IDS = [m.id for m in MODELS]


def write(path: Path, codes: Sequence[str], offsets: Sequence[int] | None = None) -> None:
    """Write codes in hex as a file of blocks, whose ids are their indices."""
    block_offsets = offsets if offsets is not None else [0] * len(codes)
    with path.open("w", newline="") as file:
        rows = zip(range(len(codes)), codes, block_offsets, strict=True)
        csv.writer(file).writerows([("id", "hex", "offset"), *rows])


def predicted(
    codes: Sequence[str], core: str, notion: str | None, offsets: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return cycles of codes in hex, in their order, a column a model; `MODEL error` says why none.

    notion None: loop where a code ends in a branch, else unrolled. offsets are code offsets in
    bytes, 0 where left out.
    """
    table = pd.DataFrame(index=range(len(codes)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blocks.csv"
        write(path, codes, offsets)
        for model in MODEL_IDS:
            answers = _kept(path, core, notion, model)
            table[model] = answers["cycles"].astype("float64")
            table[f"{model} error"] = answers["error"].fillna("")
    return table


def _kept(path: Path, core: str, notion: str | None, model: str) -> pd.DataFrame:
    """Return cycles and error by index of a block; those of outside models are kept in a file."""
    if model == Pipeline.id:
        return _predict(path, core, notion, model)
    core_toml = (paths.models_root() / core / "core.toml").read_bytes()
    key = repr((_asking_digest(), lw.__version__, model, core, notion)).encode()
    name = hashlib.sha256(key + core_toml + path.read_bytes()).hexdigest()
    kept = paths.build_dir() / "answers" / f"{name}.csv"
    if not kept.is_file():
        try:
            rows = _predict(path, core, notion, model)
        except InputError as error:  # it is not set up here
            ids = pd.RangeIndex(len(path.read_text().splitlines()) - 1, name="id")
            rows = pd.DataFrame({"cycles": float("nan"), "error": str(error)}, index=ids)
        with files.replaced(kept) as part:
            rows.to_csv(part)
    return pd.read_csv(kept, index_col="id", dtype={"error": "str"})


def _predict(path: Path, core: str, notion: str | None, model: str) -> pd.DataFrame:
    rows = lw.predict(blocks=path, microarch=core, model=model, notion=notion)
    return rows.set_index(rows["id"].astype(int))[["cycles", "error"]]


@cache
def _asking_digest() -> str:
    """Return a hash of the code that asks outside models, and of their versions."""
    package = Path(lw.__file__).parent
    digest = hashlib.sha256(repr(findings.model_versions()).encode())
    for part in ("predicting", "code"):
        for file in sorted((package / part).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
