"""Derive the tables of cores: models/<core>/instructions.csv.

usage: python models/derive [--check] [CORE ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import arm64
import intel
import zen
from inputs import MissingError
from table import path, text

FAMILIES = {
    **dict.fromkeys(arm64.CORES, arm64),
    **dict.fromkeys(intel.CORES, intel),
    **dict.fromkeys(zen.CORES, zen),
}


def main() -> int:
    """Write the tables of the cores named, or of all, or say which differ."""
    parser = argparse.ArgumentParser(prog="python models/derive", description="Derive tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if one differs")
    parser.add_argument("core", nargs="*", choices=[[], *FAMILIES], metavar="CORE")
    options = parser.parse_args()
    differ = []
    for core in options.core or FAMILIES:
        family = FAMILIES[core]
        made = family.table(core)
        wanted = text(made, family.title(core))
        kept = Path(path(core))
        if options.check:
            if not kept.is_file() or kept.read_text() != wanted:
                differ.append(core)
            continue
        kept.write_text(wanted)
        print(f"{core}: {len(made)} forms, {len(wanted)} bytes")
    for core in differ:
        print(f"{core}: the table kept is not the one that derives from the measurements")
    return 1 if differ else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingError as missing:
        print(f"models/derive: {missing}", file=sys.stderr)
        sys.exit(2)
