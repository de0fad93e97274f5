"""Tensors as code that makes them again: the same storages, shapes, strides, offsets and aliases.

Small tensors are literals.  Large ones are drawn from a seed, or packed if their exact values matter.  Memory that was
never written is allocated by `torch.empty`.  Only child processes import this.
"""

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite, isnan

import torch

from harness.execution.oversized_tensors import LARGE
from harness.execution.poison import PATTERNS

FEW = 64
"""The most floats in a literal."""
FEW_INTEGERS = 512
"""The most integers in a literal."""
MOST_PACKED_BYTES = 1 << 15
PIECE = 88
"""Characters of packed values in one string literal."""
SAME_SIZE = {8: torch.int64, 4: torch.int32, 2: torch.int16}
GENERATOR = "torch.Generator().manual_seed"


@dataclass(slots=True)
class Writing:
    """Lines that make tensors, and what they need."""

    exact: bool
    """Large tensors get their exact values rather than drawn ones."""
    after: Callable[[torch.Tensor], str] | None = None
    """The code that moves a tensor made on the CPU; None if factories get the device."""
    lines: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    storages: dict[int, str] = field(default_factory=dict[int, str])
    """The variable of each storage, by address."""


def write(tensors: Mapping[str, torch.Tensor], writing: Writing, recipes: Mapping[str, str] | None = None) -> None:
    """Add lines that make these tensors, each in a variable of its name; `recipes` are expressions for some values."""
    by_storage: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        by_storage.setdefault(tensor.untyped_storage().data_ptr(), {})[name] = tensor
    for address, views in by_storage.items():
        _write_storage(address, views, writing, recipes or {})


def view_of(variable: str, of: torch.Tensor, other: torch.Tensor) -> str:
    """Return an expression for a tensor that shares the storage of one with a variable."""
    if _geometry(of) == _geometry(other):
        return variable
    cast = "" if other.dtype == of.dtype else f".view({other.dtype})"
    shape, strides = tuple(other.shape), tuple(other.stride())
    return f"{variable}{cast}.as_strided({shape}, {strides}, {other.storage_offset()})"


def literal(tensor: torch.Tensor) -> str:
    """Return the elements as nested lists, each the shortest number that its type rounds to that element."""
    texts = iter([_number(element, tensor.dtype) for element in tensor.detach().reshape(-1).tolist()])

    def nested(shape: tuple[int, ...]) -> str:
        return f"[{', '.join(nested(shape[1:]) for _ in range(shape[0]))}]" if shape else next(texts)

    return nested(tuple(tensor.shape))


def _write_storage(
    address: int, views: Mapping[str, torch.Tensor], writing: Writing, recipes: Mapping[str, str]
) -> None:
    name, first = next(iter(views.items()))
    whole = torch.empty(0, dtype=first.dtype).set_(first.untyped_storage())
    if len(views) == 1 and whole.numel() > FEW and not any(first.stride()) and first.numel() > 1:
        scalar = _call("tensor", literal(first.reshape(-1)[0]), first, writing)
        writing.lines.append(f"{name} = {scalar}.expand({tuple(first.shape)})")
        writing.storages[address] = name
        return
    if _fills(first, whole):
        _write_values(name, first, writing, recipes.get(name))
        base = name
    else:
        base = f"{name}_memory"
        _write_around(base, whole, views, writing, recipes)
        writing.lines.append(f"{name} = {base}.as_strided({_view(first)})")
    writing.storages[address] = base
    for other, tensor in list(views.items())[1:]:
        if _geometry(tensor) == _geometry(first):
            writing.lines.append(f"{other} = {name}")
        else:
            flat = base if tensor.dtype == first.dtype else f"{base}.view({tensor.dtype})"
            writing.lines.append(f"{other} = {flat}.as_strided({_view(tensor)})")


def _fills(tensor: torch.Tensor, whole: torch.Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.storage_offset() and tensor.numel() == whole.numel()


def _write_around(
    base: str, whole: torch.Tensor, views: Mapping[str, torch.Tensor], writing: Writing, recipes: Mapping[str, str]
) -> None:
    """Write a storage of which views show a part: as a whole, or NaN with the values of the views copied in."""
    fresh = _fresh(whole)
    if not FEW < whole.numel() <= LARGE or (fresh is not None and bool(fresh.any())):
        _write_values(base, whole, writing, None)
        return
    outside = whole.clone()
    for tensor in views.values():
        if tensor.dtype == whole.dtype:
            outside.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(0)
    if not whole.is_floating_point() or not bool((torch.isnan(outside) | (outside == 0)).all()):
        _write_values(base, whole, writing, None)
        return
    filled = _call("full", f"({whole.numel()},), nan", whole, writing)
    writing.lines.append(f"{base} = {filled}")
    for name, tensor in views.items():
        values = _values(tensor.contiguous(), writing, recipes.get(name))
        writing.lines.append(f"{base}.as_strided({_view(tensor)}).copy_({values})")


def _write_values(name: str, tensor: torch.Tensor, writing: Writing, recipe: str | None) -> None:
    fresh = _fresh(tensor)
    if fresh is None or not bool(fresh.any()):
        writing.lines.append(f"{name} = {_values(tensor, writing, recipe)}")
        return
    writing.lines.append(f"{name} = {_call('empty', str(tuple(tensor.shape)), tensor, writing)}")
    written = (~fresh).reshape(-1).nonzero().reshape(-1)
    if not len(written):
        return
    count = len(written)
    values = tensor.reshape(-1)[written]
    is_prefix = bool((written == torch.arange(count)).all())
    if not is_prefix and count > FEW:
        writing.missing.append(f"{name} is partly fresh memory")
    chosen = f":{count}" if is_prefix else str(written.tolist())
    writing.lines.append(f"{name}.view(-1)[{chosen}] = {_values(values, writing, None)}")


def _fresh(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a mask of the elements that still hold the pattern of fresh memory."""
    if (pattern := PATTERNS.get(tensor.dtype)) is None or not 0 < tensor.numel() <= LARGE:
        return None
    return tensor.detach().contiguous().view(SAME_SIZE[tensor.element_size()]) == pattern


def _values(tensor: torch.Tensor, writing: Writing, recipe: str | None) -> str:
    count, shape = tensor.numel(), tuple(tensor.shape)
    if count > LARGE:
        return _call("zeros", str(shape), tensor, writing)
    first = tensor.reshape(-1)[0] if count else None
    if count > 4 and first is not None and bool((_bits(tensor) == _bits(first)).all()):
        return _call("full", f"{shape}, {_number(first.item(), tensor.dtype)}", tensor, writing)
    if count <= (FEW if tensor.is_floating_point() else FEW_INTEGERS):
        return _call("tensor", literal(tensor), tensor, writing)
    if recipe is not None:
        return _moved(recipe, tensor, writing)
    if writing.exact or not tensor.is_floating_point():
        return _packed(tensor, writing)
    return _drawn(tensor, writing)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    size = tensor.element_size()
    return tensor.view(SAME_SIZE[size]) if tensor.is_floating_point() and size in SAME_SIZE else tensor


def _drawn(tensor: torch.Tensor, writing: Writing) -> str:
    """Return normal numbers of the same mean and deviation."""
    finite = tensor.detach().to(torch.float64)
    finite = finite[torch.isfinite(finite)]
    mean = float(finite.mean()) if len(finite) else 0.0
    spread = float(finite.std()) if len(finite) > 1 else 0.0
    numbers = f"torch.randn({tuple(tensor.shape)}, generator={GENERATOR}({len(writing.lines)}))"
    spread_text = "" if 0.5 < spread < 2 else f" * {spread:.3g}"
    mean_text = "" if abs(mean) < 0.3 * spread else f" + {mean:.3g}"
    scaled = f"{numbers}{spread_text}{mean_text}"
    return _moved(f"({scaled})" if scaled != numbers else numbers, tensor, writing)


def _packed(tensor: torch.Tensor, writing: Writing) -> str:
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    if len(raw) > MOST_PACKED_BYTES:
        writing.missing.append(f"the exact values of {tuple(tensor.shape)} elements, {len(raw)} bytes")
        return _drawn(tensor, writing)
    text = base64.b85encode(zlib.compress(raw, 9)).decode()
    pieces = " ".join(f'"{text[at : at + PIECE]}"' for at in range(0, len(text), PIECE))
    unpacked = f"bytearray(zlib.decompress(base64.b85decode({pieces})))"
    after = ".to(device)" if writing.after is None else writing.after(tensor)
    return f"torch.frombuffer({unpacked}, dtype={tensor.dtype}).reshape({tuple(tensor.shape)}){after}"


def _call(factory: str, first: str, tensor: torch.Tensor, writing: Writing) -> str:
    """Return a factory call with the dtype, unless it is torch's default, and the device."""
    is_usual = tensor.dtype in {torch.float32, torch.int64, torch.bool}
    typed = "" if is_usual else f", dtype={tensor.dtype}"
    if writing.after is None:
        return f"torch.{factory}({first}{typed}, device=device)"
    return f"torch.{factory}({first}{typed}){writing.after(tensor)}"


def _moved(numbers: str, tensor: torch.Tensor, writing: Writing) -> str:
    """Convert numbers of torch's default type to the type of the tensor, on the device."""
    is_usual = tensor.dtype == torch.float32
    if writing.after is None:
        return f"{numbers}.to(device)" if is_usual else f"{numbers}.to(device, {tensor.dtype})"
    return f"{numbers if is_usual else f'{numbers}.to({tensor.dtype})'}{writing.after(tensor)}"


def _number(value: float, dtype: torch.dtype) -> str:
    if isinstance(value, bool | int):
        return str(value)
    if isnan(value):
        return "nan"
    if not isfinite(value):
        return "inf" if value > 0 else "-inf"
    for digits in range(1, 17):
        text = f"{value:.{digits}g}"
        if float(torch.tensor(float(text), dtype=dtype)) == value:
            return text if any(sign in text for sign in ".e") else f"{text}.0"
    return repr(value)


def _view(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)}, {tuple(tensor.stride())}, {tensor.storage_offset()}"


def _geometry(tensor: torch.Tensor) -> tuple[object, ...]:
    return (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
