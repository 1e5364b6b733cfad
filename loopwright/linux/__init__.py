"""Linux trees: their own code of a routine, patches for them, and the patches' verification."""
