"""Predict cycles, by our simulator and by every other throughput model that knows the core."""
