"""Code that little but the front end binds, timed: what delivers instructions to dispatch."""
