"""What answers experiments: this host, a core of the simulator, or a file of answers."""
