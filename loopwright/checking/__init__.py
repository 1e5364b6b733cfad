"""Checks of variants against their contracts."""
