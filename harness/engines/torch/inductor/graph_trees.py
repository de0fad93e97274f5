"""CUDA graphs of Inductor's own, which capture and replay the programs of `torch.compile`."""

INDUCTOR_GRAPHS = "torch._inductor.cudagraph_trees"
"""The module that does so."""
