"""The instructions of one call: run a variant's object and write down what it does."""
