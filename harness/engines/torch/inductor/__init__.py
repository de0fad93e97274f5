"""Programs that `torch.compile` compiles, run with Inductor's kernels; loaded by the first op that asks for it."""
