"""Better code for the same contract: transformations, a search over them, and its proof."""
