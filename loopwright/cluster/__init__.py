"""Work that several machines share, by Dask: which workers there are, and tasks for them."""
