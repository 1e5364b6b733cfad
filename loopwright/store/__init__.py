"""The results store: what was measured, here or elsewhere, and on what machine."""
