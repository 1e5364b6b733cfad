"""A whole binary: its loops, what each costs where it lies, and which of them their place hurts."""
