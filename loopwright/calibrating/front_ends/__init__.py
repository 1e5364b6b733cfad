"""Which front end explains what kernels of it took: candidates, predicted by the simulator."""
