"""Microbenchmarks: instruction forms, oracles that time them, and the figures they give."""
