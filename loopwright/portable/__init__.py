"""Measuring elsewhere: a kit for machines without Python, a module for the kernel."""
