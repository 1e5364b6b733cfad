"""Ports from timing alone: which instructions get in each other's way, and what explains it."""
