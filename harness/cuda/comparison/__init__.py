"""The engine that runs each launch on the virtual GPU and on a real one, and compares the results."""
