"""How an op and a case become tensors, and results facts; the same for every engine.  Runs in child processes."""
