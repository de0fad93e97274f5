"""The engine that runs each launch on the virtual GPU and on a hardware GPU, and compares the results."""
