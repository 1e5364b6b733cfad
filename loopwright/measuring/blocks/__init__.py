"""Measure blocks of code that nobody vouches for."""
