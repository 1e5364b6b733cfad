"""Scan a whole binary: its loops, their cycles at their code offsets, and loops slowed by these."""
