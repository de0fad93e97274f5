"""Measures how far two GPUs differ in the tensors of one launch, and whether rounding explains it."""

from functools import lru_cache

import torch

from harness.engines.ttir.parser import parse
from harness.model.launch_difference import Difference

SAMPLING_MARGIN = 8.0
"""Correct results may differ by this multiple of the sampled rounding error: few samples underestimate it."""
ROUNDINGS = {"bf16": "bfloat16", "f16": "float16", "tf32": "tf32", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}


@lru_cache(maxsize=256)
def roundings(ttir: str) -> tuple[str, ...]:
    """Return the types to which a kernel rounds, for `Difference.rounds`.

    Two correct computations may round there in different directions.
    """
    found: set[str] = set()
    for function in parse(ttir).functions.values():
        for operation in function.body.all_operations():
            if operation.name in {"arith.truncf", "tt.fp_to_fp"}:
                found.add(operation.result_types[0].element)
            elif operation.name == "tt.dot" and operation.operand_types[0].element == "f32":
                found.add(str(operation.attributes.get("inputPrecision", "ieee")))
    return tuple(sorted(ROUNDINGS[element] for element in found & ROUNDINGS.keys()))


def compare(kernel: str, name: str, ours: torch.Tensor, theirs: torch.Tensor) -> Difference:
    """Return how far two tensors of one type differ; `ours` is the virtual GPU's."""
    ours, theirs = ours.detach().contiguous(), theirs.contiguous()
    bits = getattr(torch, f"int{8 * ours.element_size()}")
    unequal = ours.view(bits) != theirs.view(bits)
    ulps = scaled = 0.0
    if ours.is_floating_point():
        wide, other = ours.double(), theirs.double()
        unequal &= ~(wide.isnan() & other.isnan())
        apart = distance(wide, other)[unequal]
        size = torch.maximum(wide.abs(), other.abs())[unequal]
        if apart.numel():
            # One unit in the last place of the larger magnitude; the clamp keeps zero out of the logarithm.
            unit = torch.exp2(torch.floor(torch.log2(size.clamp(min=1e-300)))) * torch.finfo(ours.dtype).eps
            ulps = float(torch.nan_to_num(apart / unit, nan=float("inf"), posinf=float("inf")).max())
            furthest, largest = float(apart.max()), _largest(wide)
            scaled = furthest / largest if largest else float("inf") if furthest else 0.0
    elif bool(unequal.any()):
        ulps = scaled = float("inf")
    return Difference(
        kernel=kernel,
        argument=name,
        dtype=str(ours.dtype).removeprefix("torch."),
        elements=ours.numel(),
        differing=int(unequal.sum()),
        ulps=ulps,
        scaled=scaled,
    )


def doubt(found: Difference, ours: torch.Tensor, theirs: torch.Tensor, rounding_error: torch.Tensor) -> float:
    """Return the largest ratio of an element's distance to the distance that rounding explains.

    `rounding_error` is sampled for each element.  A few roundings of the largest element are always allowed.
    """
    wide, other = ours.detach().double(), theirs.double()
    apart = distance(wide, other)
    allowed = SAMPLING_MARGIN * rounding_error + found.few_roundings * _largest(wide)
    over = torch.where(apart == 0, 0.0, apart / allowed)
    over = torch.where(allowed == float("inf"), 0.0, over)
    return float(over.max()) if over.numel() else 0.0


def distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return elementwise distances: 0 between equal infinities or two NaNs, infinity if just one is finite."""
    alike = (first == second) | (first.isnan() & second.isnan())
    apart = torch.nan_to_num((first - second).abs(), nan=float("inf"), posinf=float("inf"))
    return torch.where(alike, 0.0, apart)


def _largest(values: torch.Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
