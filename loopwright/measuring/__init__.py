"""Measurements of variants and blocks on this machine, and the store that keeps them."""
