"""FlagGems' operators of aten, called by torch's own functions, forward and backward.

The functions and their calls are those of `suites/torch/operators.py`, and torch on the CPU is the definition.
`covered.txt` names the functions that FlagGems implements itself; functions that are made of those are left out.
"""

from pathlib import Path

from harness.suite import beside

beside(__file__, "gems_vendor.py").name_vendor()

TORCH = beside(__file__, "../torch/operators.py")


def with_gems(function):
    import flag_gems  # noqa: F401 - imported here for the first time, before the harness forks workers

    return beside(__file__, "gems_dispatch.py").dispatched(function)


def has_axes_and_elements(sample):
    """Return True for a call that FlagGems can take: without tensors that have no axis, or no element."""
    return all(shape and all(shape) for shape in sample["shapes"])


def declared(name, entry):
    samples = [one for one in entry["samples"] if has_axes_and_elements(one)]
    # Some calls need no kernel: `flip` without axes, for example.
    return TORCH.declare(name, {**entry, "samples": samples}, with_gems, requires=("flag-gems",), launches=False)


COVERED = Path(__file__).with_name("covered.txt").read_text().split()
globals().update({name: declared(name, TORCH.CATALOGUE["operators"][name]) for name in COVERED})
