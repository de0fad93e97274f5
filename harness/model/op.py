"""The op: what a suite guards.

Owns the declaration of dims, inputs, call, reference and promises.  Making tensors of it is `harness.ops`' business,
choosing sizes `harness.search`'s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from harness.model.case import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """The inclusive range of one size of an op, in elements."""

    low: int
    high: int
    choices: tuple[int, ...] = ()
    """Only these, where given."""

    @property
    def plainest(self) -> int:
        """The value that shrinking aims at."""
        return self.choices[0] if self.choices else self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor input.  Each extent is a dim's name, a product such as `G*D`, or a number."""

    shape: tuple[str | int, ...]
    optional: bool = False
    """The library accepts None for it."""
    grad: bool = True
    """Its gradient is compared with the reference's."""
    dtype: DType | None = None
    """A fixed element type; None means the case's."""

    def extents(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for these dims."""
        return tuple(
            extent if isinstance(extent, int) else prod(dims[name.strip()] for name in extent.split("*"))
            for extent in self.shape
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of a library under test.

    `call` and `reference` take the inputs and, where they name them, the dims as keyword arguments and return one
    tensor or a tuple of tensors.  `reference` is written from the operation's definition in differentiable torch; it
    runs in float64 for the truth and in the case's dtype for the baseline.
    """

    name: str
    suite: str
    """The suite file as given on the command line: `suites/fla/norm.py`."""
    call: Callable[..., Any]
    reference: Callable[..., Any]
    dims: Mapping[str, Dim]
    inputs: Mapping[str, Tensor]
    dtypes: tuple[DType, ...] = (DType.FP32, DType.BF16, DType.FP16)
    requires: tuple[str, ...] = ()
    """Distributions that the op needs, for the message when one is missing: `fla-core`."""
    where: Callable[[Mapping[str, int]], bool] | None = None
    """Which combinations of dims are legal; all where None."""
    refuses: tuple[str, ...] = ("NotImplementedError",)
    """Class names of exceptions by which the library declines a case legitimately."""
    waives: frozenset[str] = field(default_factory=frozenset[str])
    """Names of oracles whose promise this op does not make."""
    slack: float = 2.0
    """How many times the eager baseline's error a right result may have."""

    @property
    def id(self) -> str:
        """How a case names the op: `suites/fla/norm.py:rms_norm`."""
        return f"{self.suite}:{self.name}"

    def allows(self, dims: Mapping[str, int]) -> bool:
        """Whether these dims are in range and legal together."""
        in_range = all(
            name in dims and dim.low <= dims[name] <= dim.high and (not dim.choices or dims[name] in dim.choices)
            for name, dim in self.dims.items()
        )
        return in_range and (self.where is None or self.where(dims))
