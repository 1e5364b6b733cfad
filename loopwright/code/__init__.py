"""Machine code: assembled or read, decoded, its control flow and its loops."""
