"""Where the rounding error of a launch grows: the operations at which real and exact values part.

The error of a block is the norm of its error relative to the norm of its exact values, 1 at most.  An operation whose
result has a larger error than its operands loses digits: a cast to a narrow type, a difference of nearly equal numbers,
a sum in a narrow accumulator.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.engines.ttir.ir import Module, Operation
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.numbers.exact_pairs import ExactPair
from harness.model.run import LaunchRounding

SUMS = frozenset({"arith.addf", "arith.subf"})
CANCELLED = 2.0**-24
"""A sum smaller than this, relative to its terms, is below the last digit of float32."""
LARGEST_TERM = 1e20
"""Larger numbers are masks, such as -1e30, not terms of a sum."""


@dataclass(slots=True)
class RoundingGrowth:
    """The growth of rounding errors in the launches of one case."""

    _launch: int = -1
    _roundings: dict[int, LaunchRounding] = field(default_factory=dict[int, LaunchRounding])

    def begin(self, launch: int) -> None:
        """Note what follows for the launch of this index."""
        self._launch = launch

    def note(self, module: Module, operation: Operation, operands: Sequence[ExactPair], result: ExactPair) -> None:
        """Note how far the error of a result exceeds those of its operands, and what cancelled in it."""
        known = self._roundings.get(self._launch)
        if known is None:
            known = LaunchRounding(
                launch=self._launch,
                kernel=module.kernel.name,
                operation="",
                source=None,
                before=0.0,
                after=0.0,
                cancelled=0.0,
            )
        if operation.name in SUMS:
            known = replace(known, cancelled=max(known.cancelled, _cancelled(operands, result)))
        after = relative_error(result)
        before = max(map(relative_error, operands), default=0.0) if after else 0.0
        if after - before > known.after - known.before:
            source = module.source(operation.location)
            known = replace(known, operation=operation.name, source=source, before=before, after=after)
        self._roundings[self._launch] = known

    def launches(self) -> tuple[LaunchRounding, ...]:
        """Return what was noted, by launch."""
        return tuple(self._roundings.values())


def relative_error(pair: ExactPair) -> float:
    """Return the norm of a block's error relative to its exact values, from 0 to 1; unknown ones do not count."""
    with np.errstate(all="ignore"):
        known = ~np.isnan(pair.exact) & np.isfinite(pair.exact)
        error = np.where(known, pair.real - pair.exact, 0.0)
        lost = _norm(error)
        if not lost:
            return 0.0
        size = _norm(np.where(known, pair.exact, 0.0))
        ratio = lost / size if size else 1.0
    return min(1.0, ratio) if ratio == ratio else 1.0  # noqa: PLR0124 - NaN


def _cancelled(operands: Sequence[ExactPair], result: ExactPair) -> float:
    """Return the largest term of a sum that is zero but for rounding; 0 if there is none."""
    with np.errstate(all="ignore"):
        left, right = (np.abs(operand.exact) for operand in operands)
        term = np.broadcast_to(np.maximum(left, right), result.exact.shape)
        terms = term[(np.abs(result.exact) <= CANCELLED * term) & (term < LARGEST_TERM)]
    return float(terms.max(initial=0.0))


def _norm(values: Array) -> float:
    flat = values.reshape(-1)
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.dot(flat, flat)))
