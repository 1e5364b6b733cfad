"""Where the checkout lies that the tests are of, and the data that it does not hold."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = Path(os.environ.get("LOOPWRIGHT_SHARED", ROOT.parent / "shared"))
