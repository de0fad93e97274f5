"""How far two tensors are apart that one launch left behind on two GPUs, and whether roundings explain it."""

from functools import lru_cache

import torch

from harness.model.launch_difference import Difference
from harness.virtual.ttir.parser import parse

MARGIN = 8.0
"""Two right results may be apart by so many times what the samples moved: few of them see less than there is."""
ROUNDINGS = {"bf16": "bfloat16", "f16": "float16", "tf32": "tf32", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}


@lru_cache(maxsize=256)
def roundings(ttir: str) -> tuple[str, ...]:
    """What `Difference.rounds` says of a kernel: two right computations may round there to different sides."""
    found: set[str] = set()
    for function in parse(ttir).functions.values():
        for operation in function.body.all_operations():
            if operation.name in {"arith.truncf", "tt.fp_to_fp"}:
                found.add(operation.result_types[0].element)
            elif operation.name == "tt.dot" and operation.operand_types[0].element == "f32":
                found.add(str(operation.attributes.get("inputPrecision", "ieee")))
    return tuple(sorted(ROUNDINGS[one] for one in found & ROUNDINGS.keys()))


def compare(kernel: str, name: str, ours: torch.Tensor, theirs: torch.Tensor) -> Difference:
    """How far two tensors of one type are apart."""
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


def doubt(found: Difference, ours: torch.Tensor, theirs: torch.Tensor, moved: torch.Tensor) -> float:
    """The largest distance over what random rounding moves that element, and a few roundings of the largest one."""
    wide, other = ours.detach().double(), theirs.double()
    apart = distance(wide, other)
    allowed = MARGIN * moved + found.few_roundings * _largest(wide)
    over = torch.where(apart == 0, 0.0, apart / allowed)
    over = torch.where(allowed == float("inf"), 0.0, over)
    return float(over.max()) if over.numel() else 0.0


def distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Element by element; 0 between equal infinities and two NaNs, infinity where one is finite and the other not."""
    alike = (one == other) | (one.isnan() & other.isnan())
    apart = torch.nan_to_num((one - other).abs(), nan=float("inf"), posinf=float("inf"))
    return torch.where(alike, 0.0, apart)


def _largest(values: torch.Tensor) -> float:
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
