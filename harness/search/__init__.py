"""Which cases are worth running: drawing them, running campaigns of them, making failing ones small."""

USUAL_DEVICES = "a100,h200,b200,rtx-pro-6000"
"""Where nothing is said: one GPU for each set of limits that kernels are written for.  Here, since it loads nothing."""
