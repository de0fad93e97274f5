"""Torch's own operators on the CPU, compared with themselves in float64: a bench of false alarms.

No kernel runs.  `operators.json` lists the operators, and for each some samples: calls with the shapes and settings of
torch's own tests.  The values are the harness's.  `ci/list_operators.py` writes the list, with the reason for each
operator that is left out.
"""

import json
from collections import Counter
from pathlib import Path

from harness.suite import Dim, Draw, DType, beside, op, tensor

CALLS = "calls.py"
CONTIGUOUS = ("view", "view_as")
"""Operators that torch documents to refuse tensors whose axes cannot be merged."""


def declare(name, entry, compiling=None, **more):
    """Declare an op for an operator, whose dim `sample` chooses the call.

    The op calls the operator as `compiling` returns it.  Without that, it is an op that launches no kernel.  `more` are
    other arguments of `op`.
    """
    samples = entry["samples"]

    def call(sample, **given):
        return result(sample, given, compiling)

    def result(number, given, compiling=None):
        calls, chosen = beside(__file__, CALLS), samples[number - 1]
        tensors = [given[f"x{at}"] for at in range(len(chosen["shapes"]))]
        return calls.call(entry["function"], chosen, calls.views(chosen, tensors), compiling)

    def reference(sample, **given):
        return result(sample, given)

    call.__name__ = name
    declared = op(
        dims={"sample": Dim(low=1, high=len(samples), long=0)},
        inputs={f"x{at}": declared_tensor(entry, at) for at in range(max(len(one["shapes"]) for one in samples))},
        dtypes=tuple(map(DType, entry["dtypes"])),
        **{"launches": compiling is not None, "contiguous": name in CONTIGUOUS, **more},
    )(call)
    declared.reference(reference)
    return declared


def declared_tensor(entry, at):
    """Declare a tensor with as many axes as any sample gives it."""
    shapes = [one["shapes"][at] if at < len(one["shapes"]) else [] for one in entry["samples"]]
    axes = max(map(len, shapes))
    padded = [[1] * (axes - len(shape)) + shape for shape in shapes]
    extents = (extent([shape[axis] for shape in padded]) for axis in range(axes))
    return tensor(*extents, grad=entry["gradients"][at], draw=Draw(entry["draws"][at]))


def extent(lengths):
    """Return the length of an axis as arithmetic over the sample's number, which chooses one of the lengths."""
    usual = Counter(lengths).most_common(1)[0][0]
    others = [(number, length) for number, length in enumerate(lengths, 1) if length != usual]
    chosen = "".join(f"+({length - usual})*(1//((sample-{number})*(sample-{number})+1))" for number, length in others)
    return f"{usual}{chosen}" if others else usual


CATALOGUE = json.loads(Path(__file__).with_name("operators.json").read_text())
globals().update({name: declare(name, entry) for name, entry in CATALOGUE["operators"].items()})
