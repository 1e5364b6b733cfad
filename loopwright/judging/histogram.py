"""Histograms of sizes, as judging weighs calls with them: see loopwright.histogram."""

from loopwright.histogram import Bucket as Bucket
from loopwright.histogram import Histogram as Histogram
from loopwright.histogram import parse as parse
from loopwright.histogram import read as read
