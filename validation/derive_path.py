"""Puts models/derive, which reads the measured files, on the path."""

import sys

from loopwright.paths import ROOT

sys.path.insert(0, str(ROOT / "models" / "derive"))
