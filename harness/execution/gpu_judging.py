"""Judging on the GPU: definition, baseline and comparison of a larger case run where its kernels ran.

On a CPU they take a hundred times as long as the kernels.  The CPU computes one case in `CHECKED_ONE_IN` as well, and
each case whose results are not all right; then the CPU decides.  Of a case that is too large for the CPU, the GPU does.
Small cases are quicker on the CPU, since a GPU takes microseconds for each step of a definition.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from harness.execution.array_functions import on_cpu
from harness.execution.paired_run_policy import is_sampled
from harness.execution.tolerance import Expected, Tolerance, sizes
from harness.model.case import Case, DType, Scale, ValueDistribution
from harness.model.input_spec import Built, Tensor
from harness.model.op import Op

FROM_ELEMENTS = 1 << 16
"""The largest input of a case that is judged on the GPU has at least so many elements."""
MOST_WITH_ROWS = 1 << 20
"""Rows of sampled cases of up to so many elements are computed again in other company, which the CPU judges."""
CHECKED_ONE_IN = 100
DTYPES = frozenset({DType.FP32, DType.BF16, DType.FP16})
"""Float64's rounding is far below the tolerances of these types, so two definitions in float64 must agree."""
AGREEMENT = 2.0**-12
"""Two definitions in float64 may differ by so many tolerances: rounding of float64 is 2^-29 of float32's."""
EXACT_PRODUCTS: Mapping[str, object] = {
    "fp32_precision": "ieee",
    "allow_fp16_reduced_precision_reduction": False,
    "allow_bf16_reduced_precision_reduction": False,
}
"""The settings of matrix products on the GPU in which they round no more than on a CPU."""
MEMORY_SHARE = 6
"""A definition may take one part in so many of the GPU's memory, which several processes share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingGpu:
    """The GPU on which cases are judged; the CPU stands for it in tests."""

    device: torch.device
    most_bytes: Callable[[], int]
    """Returns the memory that a definition may take; called once CUDA has started."""

    def takes(self, op: Op, case: Case) -> bool:
        """Return True if the case is judged here."""
        elements = op.largest_input(case.dims)
        if elements < FROM_ELEMENTS or case.dtype not in DTYPES or case.scale is Scale.OVERSIZED:
            return False
        if case.values is ValueDistribution.NAN_TAINTED or _has_undefined_cells(op):
            return False
        return elements > MOST_WITH_ROWS or not (is_sampled(case) and (op.independent or op.sequences))

    def place_of_inputs(self, op: Op) -> torch.device:
        """Return where large inputs are made: on the CPU, if functions of the suite see them."""
        return self.device if all(map(_is_plain, op.inputs.values())) and not op.sample else torch.device("cpu")

    @contextmanager
    def computing(self) -> Generator[None]:
        """While active, tensors that a definition makes lie on the GPU, and its products are not rounded further."""
        products = torch.backends.cuda.matmul
        before = {name: getattr(products, name) for name in EXACT_PRODUCTS}
        # The new name of TF32's switch: the old one raises once a library has used the new one.
        changed = {name: exact for name, exact in EXACT_PRODUCTS.items() if before[name] not in {exact, "none"}}
        for name, exact in changed.items():
            setattr(products, name, exact)
        try:
            with self.device:
                yield
        finally:
            for name in changed:
                setattr(products, name, before[name])


def is_checked(op: Op, case: Case) -> bool:
    """Return True if the CPU computes the case as well, however it ends."""
    return int(op.seed_digest(case), 16) % CHECKED_ONE_IN == 0


def differing(on_gpu: Mapping[str, Expected], by_cpu: Mapping[str, tuple[Expected, Tolerance]]) -> tuple[str, ...]:
    """Return the results whose definitions in float64 differ by more than float64's rounding."""
    return tuple(name for name, (own, tolerance) in by_cpu.items() if not _agree(on_gpu.get(name), own, tolerance))


def _agree(on_gpu: Expected | None, by_cpu: Expected, tolerance: Tolerance) -> bool:
    if on_gpu is None:
        return False
    here, there = by_cpu.truth.values, on_cpu(on_gpu.truth.values)
    with np.errstate(invalid="ignore"):
        error = sizes(np.where(here == there, 0.0, there - here))  # equal infinities are no difference
        are_alike = (np.isnan(here) == np.isnan(there)).all()
        if by_cpu.truth.finite is not None:
            return bool(are_alike)
        return bool(are_alike and (error.per_tile <= AGREEMENT * tolerance.per_tile).all())


def are_all_floats(results: Iterable[torch.Tensor]) -> bool:
    """Return True if no result is an integer: for these, the definition also runs with its arguments moved."""
    return all(value.is_floating_point() and value.itemsize > 1 for value in results)


def _has_undefined_cells(op: Op) -> bool:
    return op.defined is not None or any(
        isinstance(declared, Tensor) and declared.defined is not None for declared in op.inputs.values()
    )


def _is_plain(declared: object) -> bool:
    return not isinstance(declared, Built) and not (
        isinstance(declared, Tensor) and (declared.distinct or declared.ascending)
    )
