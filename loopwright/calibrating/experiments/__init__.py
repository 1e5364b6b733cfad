"""Experiments: each says what it asks, how its kernels answer, and what is made of the answers."""
