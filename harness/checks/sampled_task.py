"""The sampled task: what one sample of arguments, or several, tell about the cases of an answer."""

from dataclasses import dataclass

from harness.checks.answer import Answer, ArgumentForm, CodePlace
from harness.model.case import DType
from harness.model.input_spec import Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrder:
    """What a worker is asked for: samples of these inputs, and the sizes that the reference accepts."""

    answer: Answer
    inputs: CodePlace
    """The function that returns samples."""
    declared: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Sizes that the user declares, by the name of the dim or by its size in the first sample."""
    result: str = ""
    """The file for the `SampledTask`."""
    kept: str = ""
    """The file for the tensors of the first sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledDim:
    """A size of the samples that cases may change."""

    name: str
    sizes: tuple[int, ...]
    """Its size in each sample."""
    axes: tuple[str, ...]
    """Where it stands: `x.0`."""
    low: int
    high: int
    choices: tuple[int, ...] = ()
    """If there are any, the only sizes of cases."""
    fixed: str = ""
    """Why it has one size only; empty if it has more."""

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.choices)) if self.choices else f"{self.low} to {self.high}"
        fixed = f" ({self.fixed})" if self.fixed else ""
        return f"{self.name} ({', '.join(self.axes)}): {sizes}{fixed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledInput:
    """A tensor of the samples."""

    name: str
    shape: tuple[str, ...]
    """Extents of the axes, as text: `n128`, `3`."""
    is_integer: bool = False
    dtype: DType | None = None
    """For floating-point numbers a type other than the case's."""
    draw: Draw = Draw.VALUES
    low: int = 0
    high: str = "1"
    """The limit of integers, exclusive, as an extent."""
    ignored: int | None = None
    """An integer outside the range that stands for a label that does not count."""
    is_wide: bool = False
    """True for integers of 64 bits."""
    has_gradient: bool = False
    is_weight: bool = False
    """True for an input that moves a weight of both modules, and is no argument."""
    is_widened: bool = False
    """True for numbers of any sign, although the samples have positive ones only."""
    is_ascending: bool = False
    """Each row, along the last axis, is sorted."""
    is_distinct: bool = False
    """All integers differ from each other."""
    has_distinct_rows: bool = False
    """The numbers of each row, along the last axis, differ from each other."""
    total: str = ""
    """For boundaries of packed sequences the size at which they end, as an extent."""
    may_be_empty: bool = False
    """A sequence between two boundaries may have no element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTask:
    """Everything from which the suite of an answer is written."""

    problem: str = ""
    """Why there are no cases; empty if there are."""
    dims: tuple[SampledDim, ...] = ()
    inputs: tuple[SampledInput, ...] = ()
    arguments: tuple[ArgumentForm, ...] = ()
    weights: tuple[tuple[str, str], ...] = ()
    """As `Answer.weights`."""
    repeats: tuple[int, ...] = ()
    """As `Answer.repeats`."""
    mutated: tuple[str, ...] = ()
    sample: str = ""
    """The file with the tensors of the first sample; empty if they are too large to be a case."""
    wants_gradients: bool = False
    """A tensor of the samples requires a gradient, so the candidate's outputs must have one."""
    dtype: DType = DType.FP32
