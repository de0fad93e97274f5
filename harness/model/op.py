"""The op: one operation of a library under test, as a suite declares it.

`harness.model.input_spec` has the declarations of inputs.  `harness.execution` makes tensors, `harness.search` chooses
sizes.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, TypedDict

from harness.model.case import USUAL_DTYPES, Case, DType, Environment, GradMode, Scalar, Scale
from harness.model.host_configs import HostConfigs
from harness.model.input_spec import Contiguity, Input, Tensor

GRADIENTS = "gradients"
"""The key under which `Op.where` finds the names of the inputs whose gradients are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """The inclusive range of one size of an op, in elements."""

    low: int
    high: int
    choices: tuple[int, ...] = ()
    """If given, the only legal values."""
    grows: bool = False
    """If true, long and oversized cases may exceed `high`, also where there are choices."""
    largest: int = 2**32
    """The limit for oversized cases: a documented limit of the op, or of a grid."""
    varies: bool = False
    """True if the size differs from call to call in one program, such as a sequence length."""
    long: int | None = None
    """The limit for long cases; None for `largest` if the dim grows, else for `high`.

    A limit below 32,767 opts out.
    """
    realistic: int | None = None
    """The largest size in models, if it exceeds `high`: some cases on a hardware GPU reach it."""

    @property
    def simplest(self) -> int:
        """The value towards which failures shrink."""
        return self.choices[0] if self.choices else self.low

    def highest(self, scale: Scale) -> int:
        """Return the largest size that a case of this scale may have."""
        match scale:
            case Scale.USUAL:
                return self.high
            case Scale.LONG if self.choices and not self.grows:
                return self.high
            case Scale.LONG if self.long is not None:
                return max(self.high, self.long, self.realistic or 0)
            case Scale.LONG if self.realistic is not None and not self.grows:
                return max(self.high, self.realistic)
            case Scale.LONG | Scale.OVERSIZED:
                return max(self.high, self.largest) if self.grows else self.high

    def takes(self, size: int, scale: Scale) -> bool:
        """Return True if a case of this scale may have the size."""
        if self.choices and size <= self.high:
            return size in self.choices
        return self.low <= size <= self.highest(scale)


Requirement = str | tuple[str, ...]
"""A distribution that must be installed.  A tuple has the names that it had over time, the current one first."""


class OpSettings(TypedDict, total=False):
    """The optional arguments of `harness.suite.op`, for type checkers; the fields of an `Op` explain them."""

    options: Mapping[str, Sequence[Scalar]]
    environment: Mapping[str, Sequence[str]]
    host_configs: Mapping[str, HostConfigs]
    dtypes: tuple[DType, ...]
    requires: tuple[Requirement, ...]
    stubs: Mapping[str, str]
    where: Callable[[Mapping[str, Any]], bool] | None
    refuses: tuple[str, ...]
    waives: Collection[str]
    apart: tuple[str, ...]
    independent: tuple[str, ...]
    sequences: str
    buckets: tuple[str, ...]
    slack: float
    threads: bool
    graphs: bool
    launches: bool
    forks: bool
    contiguous: Contiguity
    defined: Callable[..., Any] | None
    sample: Callable[[], Mapping[str, Any]] | None
    compiled: bool
    """True to compile the op's function by `torch.compile`; see `harness.suite.compiled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of a library under test.

    `call` and `reference` take inputs, dims and options as keyword arguments, those for which they have parameters.
    They return one tensor or a tuple of tensors.  `reference` is the operation's definition in differentiable torch.
    It runs in float64 for the truth, and in the case's dtype for the baseline.
    """

    name: str
    suite: str
    """The suite file, relative to its project or absolute: `suites/fla/norm.py`."""
    call: Callable[..., Any]
    reference: Callable[..., Any]
    dims: Mapping[str, Dim]
    inputs: Mapping[str, Input]
    options: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict[str, tuple[Scalar, ...]])
    """Values worth trying for each option of the call; the first is the simplest: `{"causal": (False, True)}`."""
    environment: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Values worth trying for environment variables of the library, besides leaving them unset.

    The library may read them at import: `{"FLA_USE_TMA": ("1",)}`.
    """
    host_configs: Mapping[str, HostConfigs] = field(default_factory=dict[str, HostConfigs])
    """Configs among which host code of the library picks, by the function that picks: `"package.module:function"`."""
    dtypes: tuple[DType, ...] = USUAL_DTYPES
    requires: tuple[Requirement, ...] = ()
    """Distributions that must be installed, for example `("fla-core", "flash-linear-attention")`.

    `sources:vllm` says that the source archive suffices: a message about a missing vllm then suggests it.
    """
    stubs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Packages of which only modules with kernels are imported: `{"vllm": "vllm_stubs.py"}`.

    The file is relative to the suite's.  Its `MODULES` provides names that kernels need of other modules.
    """
    where: Callable[[Mapping[str, Any]], bool] | None = None
    """The predicate over dims that decides which cases are legal; all are if it is None.

    Its argument maps dims and options to their values, and optional inputs to whether they are given.  An example is
    `lambda at: at["T"] % at["C"] == 0 or not at["bias"]`.  At `gradients` are the inputs whose gradients are wanted.
    """
    refuses: tuple[str, ...] = ("NotImplementedError",)
    """Class names of exceptions by which the library legitimately refuses a case."""
    waives: frozenset[str] = field(default_factory=frozenset[str])
    """Names of the oracles whose promises this op does not make, for example `repeatability`."""
    apart: tuple[str, ...] = ()
    """Independent dims: infinity or NaN at one index of such a dim must not change results at other indices."""
    independent: tuple[str, ...] = ()
    """Dims whose indices are rows: a row of a result has the same bits whatever rows are computed with it."""
    sequences: str = ""
    """The name of the `segments` input whose packed sequences are such rows."""
    buckets: tuple[str, ...] = ()
    """Arguments of kernels that stand for a class of sizes: autotuners may tune anew for each of their values."""
    slack: float = 2.0
    """A right result may have this many times the error of the eager baseline."""
    threads: bool = False
    """True for an op that several threads may call at once, also while one of them tunes a kernel."""
    graphs: bool = False
    """True for an op that may be captured into a CUDA graph, and replayed with other values in the same inputs."""
    launches: bool = True
    """False for an op that may run without a kernel: a case that launches none is then checked by its values."""
    forks: bool = True
    """False for an op that is never called in a child of its process."""
    contiguous: Contiguity = False
    """What the function demands of all inputs that declare nothing themselves."""
    defined: Callable[..., Any] | None = None
    """The function that returns the mask of the result's cells that are defined, or a tuple of one for each result.

    It takes inputs, dims and options by name.  None stands for all cells.
    """
    sample: Callable[[], Mapping[str, Any]] | None = None
    """The function that returns inputs by name as a user has them, for cases whose values are `sample`."""
    portable_name: str = ""
    """The suite's name in draws and signatures, the same wherever the suite lies.  Empty: `suite`."""

    @property
    def id(self) -> str:
        """The op's name in cases: `suites/fla/norm.py:rms_norm`."""
        return f"{self.suite}:{self.name}"

    @property
    def portable_id(self) -> str:
        """The op's name in draws and signatures: `norm.py:rms_norm`."""
        return f"{self.portable_name or self.suite}:{self.name}"

    def seed_digest(self, case: Case) -> str:
        """Return the digest of a case of this op, but equal however the suite is named: what draws depend on."""
        return replace(case, op=self.portable_id).digest

    @property
    def libraries(self) -> tuple[tuple[str, ...], ...]:
        """The distributions that must be installed, each by all of its names."""
        return tuple((requirement,) if isinstance(requirement, str) else requirement for requirement in self.requires)

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the inputs that may be None, sorted."""
        return tuple(sorted(name for name, declared in self.inputs.items() if declared.optional))

    def differentiable(self, case: Case) -> tuple[str, ...]:
        """Return the names of the inputs of a case that may require a gradient."""
        return tuple(
            name
            for name, declared in self.inputs.items()
            if isinstance(declared, Tensor)
            and declared.grad
            and name not in case.absent
            and (declared.dtype or case.dtype).is_differentiable
        )

    def wanted_gradients(self, case: Case) -> tuple[str, ...]:
        """Return the names of the inputs whose gradients a case asks for."""
        match case.grad_mode:
            case GradMode.ENABLED:
                return tuple(name for name in self.differentiable(case) if name not in case.frozen)
            case GradMode.NO_GRAD:
                return ()

    @property
    def simplest_options(self) -> Mapping[str, Scalar]:
        return {name: choices[0] for name, choices in self.options.items()}

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Every combination of the declared variables that sets at least one, those with fewest first."""
        choices = [[None, *((name, value) for value in values)] for name, values in sorted(self.environment.items())]
        sets = (tuple(filter(None, chosen)) for chosen in product(*choices))
        return tuple(sorted(filter(None, sets), key=len))

    def settings(self, case: Case) -> dict[str, Scalar]:
        """Return the case's dims and options by name, with the simplest value of options without a setting."""
        return {**self.simplest_options, **case.dims, **case.options}

    def dims_of(self, size: int) -> dict[str, int]:
        """Return dims of this size, as far as their ranges allow; dims with choices have their simplest one."""
        return {
            name: dim.simplest if dim.choices else min(max(dim.low, size), dim.high) for name, dim in self.dims.items()
        }

    def largest_input(self, dims: Mapping[str, int]) -> int:
        """Return the number of elements of the largest input at these dims."""
        return max((prod(declared.extents(dims)) for declared in self.inputs.values()), default=0)

    def largest_size(self, name: str, drawn: Mapping[str, int], limit: int) -> int:
        """Return the largest size with which no input exceeds `limit` elements; dims not drawn are at their least."""
        dim = self.dims[name]
        least = {other: drawn.get(other, declared.low) for other, declared in self.dims.items()}
        sizes = range(dim.low, dim.high + 1)
        largest = bisect_right(sizes, limit, key=lambda size: self.largest_input({**least, name: size}))
        return sizes[max(largest - 1, 0)]

    def allows(self, case: Case) -> bool:
        """Return True if the case's dims are in range, and legal together with its other settings."""
        in_range = all(name in case.dims and dim.takes(case.dims[name], case.scale) for name, dim in self.dims.items())
        if not in_range or self.where is None:
            return in_range
        is_given = {name: name not in case.absent for name in self.optional}
        return self.where({GRADIENTS: self.wanted_gradients(case), **self.settings(case), **is_given})
