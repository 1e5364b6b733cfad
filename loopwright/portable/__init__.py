"""What measures elsewhere: a kit for machines with nothing on them, a module for the kernel."""
