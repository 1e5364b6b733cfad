"""Learn a core from timing alone: widths, latencies and ports of each instruction form."""
