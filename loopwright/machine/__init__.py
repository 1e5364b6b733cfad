"""The machine that loopwright runs on: its facts, its settings, what it can measure."""
