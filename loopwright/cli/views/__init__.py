"""What verbs found, as a terminal shows it."""
