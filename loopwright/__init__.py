"""Predict, check, measure and patch the assembly loops a kernel lives on."""

__version__ = "0.1.0"
