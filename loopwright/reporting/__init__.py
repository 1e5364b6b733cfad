"""Reports, tables and pictures of kernels, scans and cores."""
