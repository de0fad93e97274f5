"""Measures how far two GPUs differ in the tensors of one launch, and whether rounding explains it."""

from functools import lru_cache

import torch

from harness.engines.comparison.rounding_spread import RoundingSpread
from harness.engines.ttir.ir import TtirRegion
from harness.engines.ttir.parser import parse
from harness.model.launch_difference import Difference

SAMPLING_MARGIN = 8.0
"""Correct results may differ by this multiple of the sampled rounding error: few samples underestimate it."""
ROUNDINGS = {
    "bf16": "bfloat16",
    "f16": "float16",
    "tf32": "tf32",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
}


@lru_cache(maxsize=256)
def roundings(ttir: str) -> tuple[str, ...]:
    """Return the types to which a kernel rounds, for `Difference.rounds`.

    Two correct computations may round there in different directions.
    """
    kinds: set[str] = set()
    for function in parse(ttir).functions.values():
        for operation in function.body.all_operations():
            if operation.name in {"arith.truncf", "tt.fp_to_fp"}:
                kinds.add(operation.result_types[0].element)
            elif operation.name == "tt.dot" and operation.operand_types[0].element == "f32":
                kinds.add(str(operation.attributes.get("inputPrecision", "ieee")))
    return tuple(sorted(ROUNDINGS[element] for element in kinds & ROUNDINGS.keys()))


@lru_cache(maxsize=256)
def sums_in_any_order(ttir: str) -> bool:
    """Return True if a kernel leaves the order of sums or products to the compiler.

    The order decides whether infinities of both signs, or infinity and zero, meet: the result is NaN or infinite.
    """
    return any(
        operation.name == "tt.dot"
        or (operation.name in {"tt.reduce", "tt.scan"} and any(map(_adds_or_multiplies, operation.regions)))
        for function in parse(ttir).functions.values()
        for operation in function.body.all_operations()
    )


def _adds_or_multiplies(region: TtirRegion) -> bool:
    return any(inner.name in {"arith.addf", "arith.mulf"} for inner in region.all_operations())


def compare(kernel: str, name: str, virtual: torch.Tensor, hardware: torch.Tensor) -> Difference:
    """Return how far two tensors of one type differ; `virtual` is the virtual GPU's."""
    virtual, hardware = virtual.detach().contiguous(), hardware.contiguous()
    bits = getattr(torch, f"int{8 * virtual.element_size()}")
    unequal = virtual.view(bits) != hardware.view(bits)
    ulps = scaled = 0.0
    if virtual.is_floating_point():
        wide, other = virtual.double(), hardware.double()
        unequal &= ~(wide.isnan() & other.isnan())
        apart = distance(wide, other)[unequal]
        size = torch.maximum(wide.abs(), other.abs())[unequal]
        if apart.numel():
            # One unit in the last place of the larger magnitude; the clamp keeps zero out of the logarithm.
            unit = torch.exp2(torch.floor(torch.log2(size.clamp(min=1e-300)))) * torch.finfo(virtual.dtype).eps
            ulps = float(torch.nan_to_num(apart / unit, nan=float("inf"), posinf=float("inf")).max())
            furthest, largest = float(apart.max()), _largest(wide)
            scaled = furthest / largest if largest else float("inf") if furthest else 0.0
    elif bool(unequal.any()):
        ulps = scaled = float("inf")
    return Difference(
        kernel=kernel,
        argument=name,
        dtype=str(virtual.dtype).removeprefix("torch."),
        elements=virtual.numel(),
        differing=int(unequal.sum()),
        ulps=ulps,
        scaled=scaled,
    )


def doubt(
    difference: Difference,
    virtual: torch.Tensor,
    other: torch.Tensor,
    spread: RoundingSpread,
    *,
    in_any_order: bool = False,
) -> float:
    """Return the largest ratio of an element's distance to the distance that rounding explains.

    A few roundings of the largest element are always allowed.  Where one repetition with random rounding lies further
    from the others than this allows, the other result may, too: rounding leaves no digit there.  An integer, as of a
    quantiser, may differ as far as rounding moves it.

    Args:
        difference: of the two tensors.
        virtual: the virtual GPU's.
        other: the other machine's.
        spread: of the repetitions.
        in_any_order: infinity on one side and NaN on the other are equal.
    """
    wide, found = virtual.detach().double(), other.double()
    apart = distance(wide, found)
    if not apart.numel():
        return 0.0
    if not difference.is_floating:
        return 0.0 if bool((apart <= spread.furthest).all()) else float("inf")
    if in_any_order:
        apart = torch.where(wide.isfinite() | found.isfinite(), apart, 0.0)
    # Below the smallest normal number, rounding errors get no smaller.
    always = difference.few_roundings * max(_largest(wide), torch.finfo(virtual.dtype).tiny)
    over = _ratio(apart, SAMPLING_MARGIN * spread.furthest + always)
    own = _ratio(spread.furthest, SAMPLING_MARGIN * spread.second + always)
    if own == float("inf"):
        return 0.0
    return over if own <= 1.0 else over / (SAMPLING_MARGIN * own)


def _ratio(apart: torch.Tensor, allowed: torch.Tensor) -> float:
    over = torch.where(apart == 0, 0.0, apart / allowed)
    return float(torch.where(allowed == float("inf"), 0.0, over).max())


def distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return elementwise distances: 0 between equal infinities or two NaNs, infinity if just one is finite."""
    alike = (first == second) | (first.isnan() & second.isnan())
    apart = torch.nan_to_num((first - second).abs(), nan=float("inf"), posinf=float("inf"))
    return torch.where(alike, 0.0, apart)


def _largest(values: torch.Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
