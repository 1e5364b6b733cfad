"""Where the checkout lies that the tests are of."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
