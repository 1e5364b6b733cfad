"""Hold variants to their contracts."""
