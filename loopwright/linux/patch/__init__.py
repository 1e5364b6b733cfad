"""Turn a variant into a kernel patch that applies, says why, and is proven before it is kept."""
