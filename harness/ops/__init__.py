"""How an op and a case become tensors, and results become facts; the same for every engine.  Runs in child processes."""
