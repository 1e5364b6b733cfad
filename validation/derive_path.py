"""Puts models/derive, which reads the measured files, on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models" / "derive"))
