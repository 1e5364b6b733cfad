"""The instruction forms of an ISA, from its decoder's own tables, and code made of them."""
