"""The op: what a suite guards.

Owns the declaration of dims, options, call, reference and promises; `harness.model.input_spec` that of inputs.  Making
tensors of it is `harness.ops`' business, choosing sizes `harness.search`'s.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.model.case import Case, DType, Scalar, Scale
from harness.model.input_spec import Input


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """The inclusive range of one size of an op, in elements."""

    low: int
    high: int
    choices: tuple[int, ...] = ()
    """Only these, where given."""
    grows: bool = False
    """A giant case may have more of these than `high`."""
    largest: int = 2**32
    """So many at most: where the op is documented to end, or a grid does."""

    @property
    def plainest(self) -> int:
        """The value that shrinking aims at."""
        return self.choices[0] if self.choices else self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of a library under test.

    `call` and `reference` take the inputs and, where they name them, dims and options as keyword arguments and return
    one tensor or a tuple of tensors.  `reference` is written from the operation's definition in differentiable torch;
    it runs in float64 for the truth and in the case's dtype for the baseline.
    """

    name: str
    suite: str
    """The suite file as given on the command line: `suites/fla/norm.py`."""
    call: Callable[..., Any]
    reference: Callable[..., Any]
    dims: Mapping[str, Dim]
    inputs: Mapping[str, Input]
    options: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict[str, tuple[Scalar, ...]])
    """Flags and settings of the call with the values worth trying; the first is the plainest."""
    dtypes: tuple[DType, ...] = (DType.FP32, DType.BF16, DType.FP16)
    requires: tuple[str, ...] = ()
    """Distributions that the op needs, for the message when one is missing: `fla-core`."""
    where: Callable[[Mapping[str, Any]], bool] | None = None
    """Which combinations are legal; all where None.  Given dims, options, and for each optional input whether it is."""
    refuses: tuple[str, ...] = ("NotImplementedError",)
    """Class names of exceptions by which the library declines a case legitimately."""
    waives: frozenset[str] = field(default_factory=frozenset[str])
    """Names of oracles whose promise this op does not make."""
    apart: tuple[str, ...] = ()
    """Dims along which it keeps its inputs apart: what is infinite or NaN at one place leaves the others' results."""
    slack: float = 2.0
    """How many times the eager baseline's error a right result may have."""

    @property
    def id(self) -> str:
        """How a case names the op: `suites/fla/norm.py:rms_norm`."""
        return f"{self.suite}:{self.name}"

    @property
    def optional(self) -> tuple[str, ...]:
        """The inputs that may be None, sorted."""
        return tuple(sorted(name for name, declared in self.inputs.items() if declared.optional))

    @property
    def plainest_options(self) -> Mapping[str, Scalar]:
        """The first value of each option."""
        return {name: choices[0] for name, choices in self.options.items()}

    def settings(self, case: Case) -> dict[str, Scalar]:
        """The case's dims and options by name, options that it does not mention at their plainest."""
        return {**self.plainest_options, **case.dims, **case.options}

    def allows(self, case: Case) -> bool:
        """Whether the case's dims are in range and legal together with its options and absent inputs."""
        giant = case.scale is Scale.GIANT
        in_range = all(
            name in case.dims
            and dim.low <= case.dims[name]
            and (case.dims[name] <= dim.high or (giant and dim.grows and case.dims[name] <= dim.largest))
            and (not dim.choices or case.dims[name] in dim.choices)
            for name, dim in self.dims.items()
        )
        if not in_range or self.where is None:
            return in_range
        given = {name: name not in case.absent for name in self.optional}
        return self.where({**self.settings(case), **given})
