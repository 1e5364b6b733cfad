"""A Linux tree: what it has itself, patches for it, and whether they hold there."""
