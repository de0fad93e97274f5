"""Torch's own operators as Inductor compiles them, forward and backward, compared with themselves in float64.

The list of operators and their calls is that of `suites/torch/operators.py`.  An operator for which Inductor generates
no kernel abstains: no kernel was launched.
"""

from harness.suite import beside, compiled

TORCH = beside(__file__, "../torch/operators.py")

globals().update({name: TORCH.declare(name, entry, compiled) for name, entry in TORCH.CATALOGUE["operators"].items()})
