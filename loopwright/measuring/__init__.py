"""Measure variants on this host."""
