"""Samples of an answer's arguments, generalised in a worker: sizes become dims, values become ranges.

Equal sizes are one dim: with several samples, those that are equal in all of them.  The reference decides which sizes a
dim may have.  It is called with small tensors, and a size at which it fails is no legal case.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from harness import wire
from harness.checks.answer import Answer, ArgumentForm
from harness.checks.answer_code import load
from harness.checks.kept_outputs import key_of
from harness.checks.number_traits import differs_by_purpose, has_distinct_rows, is_ascending, total_of
from harness.checks.reference import built
from harness.checks.reference_probe import (
    Probe,
    free_axes,
    independent_axes,
    smallest_sizes,
    with_any_numbers,
    with_extent,
    with_ignored_labels,
)
from harness.checks.sampled_task import SampledDim, SampledInput, SampledTask, SampleOrder
from harness.checks.torch_work import TorchWork
from harness.execution.inputs import TORCH_DTYPES
from harness.execution.result_forms import kind_of
from harness.model.case import DType
from harness.model.input_spec import Draw

FLOATS = {dtype: name for name, dtype in TORCH_DTYPES.items() if name.is_differentiable and name is not DType.FP64}
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
HIGHEST = {1: 10_000, 2: 2048, 3: 256, 4: 64}
"""By the number of axes of an input, the largest size of its dims.  A limit of elements counts, too."""
OTHERWISE = 24
PROBED = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 192, 256)
MOST_WEIGHTS = 1 << 16
"""The most numbers of all weights that cases move."""
MOST_ELEMENTS = 2**20
"""A tensor of a sample with more elements repeats its values, so that it takes little memory."""
FEW_VALUES = 16
LEAST_UNIT, LEAST_POSITIVE = 5, 7
"""From so many numbers on, chance hardly makes all of them numbers in [0, 1], or positive; one number is a factor."""
POINTWISE = frozenset(
    {
        *("abs", "clamp", "exp", "log", "neg", "pow", "round", "floor", "sigmoid", "sign", "sqrt", "square", "tanh"),
        *("add", "radd", "sub", "rsub", "mul", "rmul", "div", "truediv", "rtruediv"),
        *("eq", "ne", "lt", "le", "gt", "ge"),
        *("to", "float", "double", "half", "bfloat16", "bool", "int", "long", "cuda", "cpu", "contiguous"),
    }
)
"""Functions that large tensors of a sample go through row by row."""
FIXED_BY_INIT = "get_init_inputs() has this size"
FIXED_BY_REFERENCE = "the reference accepts no other size"


class NoSample(Exception):
    """The samples cannot be generalised; the text says why, and what to change."""


def sample(order: SampleOrder) -> None:
    """Write the task that an order asks for.  An error of the user's code is its problem."""
    try:
        task = _task(order)
    except Exception as error:  # noqa: BLE001 - user code may raise anything; the parent reports it
        text = str(error) if isinstance(error, NoSample) else f"{type(error).__name__}: {error}"
        task = SampledTask(problem=text or type(error).__name__)
    Path(order.result).write_text(wire.to_json(task), encoding="ascii")


def _task(order: SampleOrder) -> SampledTask:
    make = load(order.inputs)
    with _SmallFactories():
        samples = _samples_of(make())
    first = samples[0]
    names = _names(order.answer, len(first))
    kept = _keep(first, names, order.kept)
    for sample in samples:
        if len(sample) != len(first):
            raise NoSample(f"the samples have {len(first)} and {len(sample)} arguments: return as many in each")
    axes = dict(_axes(samples, names))
    dims = _dims(axes, order)
    by_sizes = {dim.sizes: dim.name for dim in dims}
    floats = [value.dtype for value in first if isinstance(value, torch.Tensor) and value.dtype in FLOATS]
    dtype = FLOATS[floats[0]] if floats else DType.FP32
    wants_gradients = any(isinstance(value, torch.Tensor) and value.requires_grad for value in first)
    inputs: list[SampledInput] = []
    arguments: list[ArgumentForm] = []
    for index, name in enumerate(names):
        values = [sample[index] for sample in samples]
        if isinstance(values[0], torch.Tensor):
            sampled = _input(name, values, by_sizes, dims, dtype)
            if wants_gradients and not values[0].requires_grad:
                sampled = replace(sampled, has_gradient=False)
            inputs.append(sampled)
            arguments.append(ArgumentForm(tensor=name, element=_element(values[0].dtype, sampled)))
        else:
            arguments.append(_constant(index, values, by_sizes))
    if not inputs:
        raise NoSample("no argument of the samples is a tensor: return the arguments of one call")
    bounds = {sampled.shape[0] for sampled in inputs if sampled.total}
    dims = [replace(dim, low=2) if dim.name in bounds else dim for dim in dims]  # of one sequence at least
    answer = replace(order.answer, arguments=tuple(arguments))
    task = SampledTask(
        dims=tuple(dims),
        inputs=tuple(inputs),
        arguments=tuple(arguments),
        wants_gradients=wants_gradients,
        dtype=dtype,
        sample=kept,
    )
    return _probed(Probe(answer, task), _init_integers(answer), dict(order.declared))


def _keep(first: Sequence[Any], names: Sequence[str], file: str) -> str:
    """Write the tensors of a sample to a file and return it; empty if they are too large, or have no file."""
    tensors = {name: value for name, value in zip(names, first, strict=True) if isinstance(value, torch.Tensor)}
    sizes = [max(value.numel(), value.untyped_storage().nbytes() // value.itemsize) for value in tensors.values()]
    if not file or max(sizes, default=0) > MOST_ELEMENTS:
        return ""
    torch.save({name: value.detach() for name, value in tensors.items()}, file)
    return file


def read_sample(file: str) -> Mapping[str, torch.Tensor]:
    """Return the tensors of a sample that was kept, by the names of the inputs."""
    return torch.load(file, weights_only=True)


def _samples_of(returned: Any) -> list[Sequence[Any]]:
    """Return the samples: one, or each of a list whose elements are tuples or lists of arguments."""
    if isinstance(returned, torch.Tensor):
        return [(returned,)]
    if not isinstance(returned, tuple | list) or not returned:
        raise NoSample(f"the inputs are a {type(returned).__name__}: return a tuple of arguments, or a list of tuples")
    if isinstance(returned, list) and all(isinstance(each, tuple | list) for each in returned):
        return list(returned)
    return [returned]


def _names(answer: Answer, count: int) -> list[str]:
    """Return the names of the reference's parameters, where they can be names of inputs."""
    function = load(answer.reference)
    target = getattr(function, "forward", function) if answer.is_model else function
    try:
        parameters = [name for name in inspect.signature(target).parameters if name != "self"]
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for index in range(count):
        name = parameters[index] if index < len(parameters) else ""
        legal = name.isidentifier() and not name.startswith("_") and name not in {"again", "args", "kwargs", "grad"}
        names.append(name if legal and not (name[:1] == "n" and name[1:].isdigit()) else f"x{index}")
    return names


def _axes(samples: Sequence[Sequence[Any]], names: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each axis of a tensor with its sizes in all samples."""
    for index, name in enumerate(names):
        tensors = [sample[index] for sample in samples]
        if not any(isinstance(value, torch.Tensor) for value in tensors):
            continue
        if not all(isinstance(value, torch.Tensor) for value in tensors):
            raise NoSample(f"argument {index} is a tensor in some samples only")
        if len({(value.dim(), value.dtype) for value in tensors}) > 1:
            raise NoSample(f"argument {index} has other axes, or another type, in another sample")
        for axis in range(tensors[0].dim()):
            yield f"{name}.{axis}", tuple(int(value.shape[axis]) for value in tensors)


def _dims(axes: Mapping[str, tuple[int, ...]], order: SampleOrder) -> list[SampledDim]:
    ranks: dict[tuple[int, ...], int] = {}
    places: dict[tuple[int, ...], list[str]] = {}
    for place, sizes in axes.items():
        if 0 in sizes:
            raise NoSample(f"{place} has size 0: return tensors with elements")
        if set(sizes) == {1}:
            continue
        rank = sum(other.startswith(f"{place.partition('.')[0]}.") for other in axes)
        ranks[sizes] = max(rank, ranks.get(sizes, 0))
        places.setdefault(sizes, []).append(place)
    dims: list[SampledDim] = []
    for sizes, axes_of_dim in places.items():
        name = _unused(f"n{sizes[0]}", dims)
        high = max(HIGHEST.get(ranks[sizes], OTHERWISE), 1)
        dims.append(SampledDim(name=name, sizes=sizes, axes=tuple(axes_of_dim), low=1, high=high))
    known = {dim.name for dim in dims} | {str(dim.sizes[0]) for dim in dims}
    for name, _ in order.declared:
        if name not in known:
            listed = ", ".join(f"{dim.name} ({', '.join(dim.axes)})" for dim in dims)
            raise NoSample(f"--sizes names {name}, but the dims are {listed}")
    return dims


def _unused(name: str, dims: Iterable[SampledDim]) -> str:
    """Return the name, with letters after it if a dim has it already."""
    taken = {dim.name for dim in dims}
    while name in taken:
        name += "b"
    return name


def _input(
    name: str,
    values: Sequence[torch.Tensor],
    by_sizes: Mapping[tuple[int, ...], str],
    dims: Sequence[SampledDim],
    dtype: DType,
) -> SampledInput:
    shape = tuple(
        by_sizes.get(sizes, str(sizes[0]))
        for axis in range(values[0].dim())
        if (sizes := tuple(int(value.shape[axis]) for value in values))
    )
    parts = [_part(value.detach()).cpu() for value in values]
    flat = torch.cat([part.reshape(-1) for part in parts])
    element = values[0].dtype
    if element in FLOATS:
        ascends = is_ascending(parts)
        numbers = flat.to(torch.float64)
        if not _holds_few_integers(numbers):
            own = None if FLOATS[element] == dtype else FLOATS[element]
            return SampledInput(
                name=name,
                shape=shape,
                dtype=own,
                draw=_draw(values, numbers),
                has_gradient=True,
                is_ascending=ascends,
                has_distinct_rows=ascends and has_distinct_rows(parts),
            )
        low, high = int(numbers.min()), int(numbers.max()) + 1
        return SampledInput(
            name=name, shape=shape, is_integer=True, low=low, high=str(high), is_wide=True, is_ascending=ascends
        )
    if element not in INTEGERS:
        raise NoSample(
            f"{name} has elements of {kind_of(element)}: the virtual GPU draws float32, bfloat16, float16 and integers"
        )
    if element is torch.bool:
        return SampledInput(name=name, shape=shape, is_integer=True, low=0, high="2")
    parts = [part.to(torch.int64) for part in parts]
    integers = SampledInput(name=name, shape=shape, is_integer=True, is_wide=element is torch.int64)
    if total := total_of(parts, {dim.name: dim.sizes for dim in dims}):
        may_be_empty = not has_distinct_rows(parts)
        return replace(integers, high=f"{total}+1", total=total, may_be_empty=may_be_empty)
    ignored = _ignored(flat)
    counted = [part if ignored is None else part[part != ignored] for part in parts]
    low = min(int(part.min()) for part in counted if part.numel())
    largest = [int(part.max()) if part.numel() else low for part in counted]
    high, span = str(max(largest) + 1), max(largest) + 1 - low
    if dim := _limit(dims, largest) if low >= 0 else None:
        high, span = dim.name, max(dim.sizes) - low
    is_distinct = differs_by_purpose([part.reshape(-1) for part in counted], span)
    has_distinct = not is_distinct and ignored is None and differs_by_purpose(parts, span)
    return replace(
        integers,
        low=low,
        high=high,
        ignored=ignored,
        is_ascending=is_ascending(parts),
        is_distinct=is_distinct,
        has_distinct_rows=has_distinct,
    )


def _limit(dims: Iterable[SampledDim], largest: Sequence[int]) -> SampledDim | None:
    """Return the smallest dim that is near above the integers in all samples: a number of classes, or of rows."""
    near = [
        dim for dim in dims if all(most < size <= 2 * (most + 1) for size, most in zip(dim.sizes, largest, strict=True))
    ]
    return min(near, key=lambda dim: dim.sizes, default=None)


def _ignored(numbers: torch.Tensor) -> int | None:
    """Return the only negative number among others, which stands for labels that do not count; None without one."""
    negative = numbers[numbers < 0].unique()
    return int(negative[0]) if len(negative) == 1 and bool((numbers >= 0).any()) else None


def _part(value: torch.Tensor) -> torch.Tensor:
    """Return a part of a large tensor: the first ones along its leading axes."""
    for axis in range(value.dim()):
        if value.numel() <= MOST_ELEMENTS:
            break
        row = value.numel() // value.shape[axis]
        value = value.narrow(axis, 0, min(value.shape[axis], max(1, MOST_ELEMENTS // row)))
    return value


def _element(dtype: torch.dtype, sampled: SampledInput) -> str:
    """Return the type to which an input is changed for the call; empty if it is drawn in its own type."""
    if not sampled.is_integer:
        return ""
    drawn = torch.int64 if sampled.is_wide else torch.int32
    return "" if dtype == drawn else kind_of(dtype)


def _holds_few_integers(numbers: torch.Tensor) -> bool:
    """Return True for floating-point labels: whole numbers, of which there are few."""
    if numbers.numel() < FEW_VALUES or not bool((numbers == numbers.round()).all()):
        return False
    return 1 < numbers.unique().numel() <= FEW_VALUES


def _draw(values: Sequence[torch.Tensor], numbers: torch.Tensor) -> Draw:
    """Return the domain that all samples share, as far as it can be seen."""
    if values[0].dim() and values[0].shape[-1] > 1 and values[0].shape[-1] <= MOST_ELEMENTS:
        first = _part(values[0].detach()).to(torch.float64)
        ones = torch.ones((), dtype=torch.float64)
        if bool((first >= 0).all()) and torch.allclose(first.sum(-1), ones, atol=1e-2):
            return Draw.SHARES
        if bool((first <= 0).all()) and torch.allclose(first.exp().sum(-1), ones, atol=1e-2):
            return Draw.LOG_SHARES
    count = numbers.numel()
    if count >= LEAST_UNIT and bool(((numbers >= 0) & (numbers <= 1)).all()):
        return Draw.UNIT
    if (count >= LEAST_POSITIVE or count == 1) and bool((numbers >= 0).all()):
        return Draw.POSITIVE
    return Draw.VALUES


def _constant(index: int, values: Sequence[Any], by_sizes: Mapping[tuple[int, ...], str]) -> ArgumentForm:
    if all(value == values[0] and type(value) is type(values[0]) for value in values):
        if values[0] is None or isinstance(values[0], int | float | bool | str):
            return ArgumentForm(value=values[0])
        raise NoSample(
            f"argument {index} is a {type(values[0]).__name__}, neither a tensor nor a number, a text or None: "
            "make it inside the functions"
        )
    sizes = tuple(value for value in values if isinstance(value, int))
    if len(sizes) == len(values) and sizes in by_sizes:
        return ArgumentForm(dim=by_sizes[sizes])
    raise NoSample(f"argument {index} differs from sample to sample, and is no size of a tensor: keep it the same")


def _init_integers(answer: Answer) -> frozenset[int]:
    """Return the integers among the constructor's arguments."""
    if answer.init_inputs is None:
        return frozenset()

    def integers(value: Any) -> Iterator[int]:
        if isinstance(value, tuple | list | dict):
            for each in value.values() if isinstance(value, dict) else value:
                yield from integers(each)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield value

    return frozenset(integers(list(load(answer.init_inputs)())))


def _probed(probe: Probe, init_integers: frozenset[int], declared: Mapping[str, tuple[int, ...]]) -> SampledTask:
    """Return the task with the sizes that the reference accepts."""
    init_sizes = frozenset(size for size in init_integers if size > 1)
    chosen = {dim.name: (*declared.get(dim.name, ()), *declared.get(str(dim.sizes[0]), ())) for dim in probe.task.dims}
    dims = [_before_probing(dim, init_sizes, chosen[dim.name]) for dim in probe.task.dims]
    base, problem = smallest_sizes(probe, dims)
    if problem:
        raise NoSample(f"the reference fails with tensors like those of the sample: {problem}")
    for dim, limited in zip(probe.task.dims, tuple(dims), strict=True):
        if limited.fixed and (axes := free_axes(probe, dim, base)):
            probe, dims = _split(probe, dims, dim, axes)
            base = {split.name: base.get(split.name, dim.sizes[0]) for split in dims}
    for dim in tuple(dims):
        if len(dim.sizes) == 1 and not dim.choices and _has_two_axes_of_a_tensor(dim) and base[dim.name] > 1:
            for axes in independent_axes(probe, dim, base)[1:]:
                whole = next(known for known in dims if known.name == dim.name)
                probe, dims = _split(probe, dims, whole, axes)
                base = {split.name: base.get(split.name, base[dim.name]) for split in dims}
    if probe.answer.is_model:
        probe = with_ignored_labels(with_any_numbers(probe, base), base, init_integers)
    ranged = [dim if dim.choices else _with_range(probe, dim, base) for dim in dims]
    inputs = probe.inputs(base)
    kept = {name: value.clone() for name, value in inputs.items()}
    with TorchWork() as work:
        first = {name: value.clone() for name, value in probe.outputs(inputs, base).items()}
    mutated = tuple(name for name, value in inputs.items() if key_of({name: value}) != key_of({name: kept[name]}))
    second = probe.outputs({name: value.clone() for name, value in kept.items()}, base)
    if key_of(first) != key_of(second):
        raise NoSample("the reference returns other values for the same inputs: it must not be random")
    task = replace(probe.task, dims=tuple(ranged), repeats=tuple(work.repeats), mutated=mutated)
    return with_weights(task, probe.answer)


def _has_two_axes_of_a_tensor(dim: SampledDim) -> bool:
    """Return True if axes may agree by chance, as those of a square matrix.  One axis of each tensor is one dim."""
    tensors = [axis.rpartition(".")[0] for axis in dim.axes]
    return len(set(tensors)) < len(tensors)


def with_weights(task: SampledTask, answer: Answer) -> SampledTask:
    """Return the task with an input for each weight of the reference, unless there are too many numbers."""
    if not answer.is_model:
        return task
    parameters = dict(built(answer, load(answer.reference)).named_parameters())
    if sum(value.numel() for value in parameters.values()) > MOST_WEIGHTS:
        return task
    weights: list[tuple[str, str]] = []
    inputs: list[SampledInput] = []
    for number, (name, value) in enumerate(parameters.items()):
        if value.dtype not in FLOATS:
            continue
        weights.append((f"weight{number}", name))
        own = None if FLOATS[value.dtype] == task.dtype else FLOATS[value.dtype]
        shape = tuple(map(str, value.shape))
        has_gradient = value.requires_grad
        inputs.append(
            SampledInput(
                name=f"weight{number}",
                shape=shape,
                dtype=own,
                draw=Draw.UNIT,
                has_gradient=has_gradient,
                is_weight=True,
            )
        )
    return replace(task, inputs=(*task.inputs, *inputs), weights=tuple(weights))


def _before_probing(dim: SampledDim, init_sizes: frozenset[int], declared: tuple[int, ...]) -> SampledDim:
    if declared:
        return replace(dim, choices=declared, low=min(declared), high=max(declared))
    if init_sizes.intersection(dim.sizes):
        return _fixed(dim, FIXED_BY_INIT)
    return dim


def _split(
    probe: Probe, dims: Sequence[SampledDim], fixed: SampledDim, axes: Sequence[str]
) -> tuple[Probe, list[SampledDim]]:
    """Return the probe and the dims with a dim of its own for these axes of a fixed one."""
    name = _unused(fixed.name, dims)
    split: list[SampledDim] = []
    for dim in dims:
        rest = tuple(axis for axis in dim.axes if axis not in axes)
        if rest:
            split.append(replace(dim, axes=rest))
        if dim.name == fixed.name:
            split.append(replace(fixed, name=name, axes=tuple(axes)))
    return with_extent(probe, axes, name), split


def _fixed(dim: SampledDim, why: str) -> SampledDim:
    sizes = tuple(sorted(set(dim.sizes)))
    return replace(dim, choices=sizes, low=sizes[0], high=sizes[-1], fixed=why)


def _with_range(probe: Probe, dim: SampledDim, base: Mapping[str, int]) -> SampledDim:
    """Return the dim with the sizes at which the reference succeeds while the others have their base."""
    candidates = [size for size in PROBED if dim.low <= size <= max(dim.high, base[dim.name])]
    legal = [size for size in candidates if not probe.problem({**base, dim.name: size})]
    from_low = [size for size in candidates if legal and size >= legal[0]]
    if legal == from_low and len(legal) > 1:
        return replace(dim, low=legal[0])
    if len(legal) > 1:
        return replace(dim, choices=tuple(legal), low=legal[0], high=legal[-1])
    return _fixed(dim, FIXED_BY_REFERENCE)


class _SmallFactories(TorchFunctionMode):
    """Lets large random and constant tensors repeat one row, so that samples of any size take little memory."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """By the id of a tensor that repeats a row: the tensor, which keeps the id in use, and the row."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function; for one row, if the whole tensor is large."""
        options = dict(kwargs or {})
        if args and (known := self._rows.get(id(args[0]))) and _is_pointwise(func, (*args[1:], *options.values())):
            whole, row = known
            return self._repeated(func(row, *args[1:], **options), whole.shape)
        if func not in _ROWS:
            return func(*args, **options)
        plain = {name: value for name, value in options.items() if name not in {"device", "pin_memory", "generator"}}
        shape = func(*args, **plain, device="meta").shape
        if shape.numel() <= MOST_ELEMENTS:
            return func(*args, **options)
        row = _ROWS[func](args, {name: value for name, value in plain.items() if name != "size"}, shape[-1])
        return self._repeated(row, shape)

    def _repeated(self, row: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        whole = row.as_strided(shape, (*(0,) * (len(shape) - 1), 1))
        self._rows[id(whole)] = (whole, row)
        return whole


def _is_pointwise(func: Callable[..., Any], operands: Iterable[Any]) -> bool:
    """Return True for a function that computes each element from one element and from numbers."""
    return getattr(func, "__name__", "").strip("_") in POINTWISE and not any(
        isinstance(operand, torch.Tensor) for operand in operands
    )


def _row_of_integers(args: tuple[Any, ...], kwargs: Mapping[str, Any], columns: int) -> torch.Tensor:
    bounds = [value for value in args if isinstance(value, int)]
    low = kwargs.get("low", bounds[0] if len(bounds) > 1 else 0)
    high = kwargs.get("high", bounds[-1] if bounds else 1)
    return torch.randint(low, high, (columns,), dtype=kwargs.get("dtype", torch.int64))


_ROWS: Mapping[Any, Callable[[tuple[Any, ...], Mapping[str, Any], int], torch.Tensor]] = {
    torch.rand: lambda _, kwargs, columns: torch.rand(columns, **kwargs),
    torch.randn: lambda _, kwargs, columns: torch.randn(columns, **kwargs),
    torch.zeros: lambda _, kwargs, columns: torch.zeros(columns, **kwargs),
    torch.ones: lambda _, kwargs, columns: torch.ones(columns, **kwargs),
    torch.empty: lambda _, kwargs, columns: torch.zeros(columns, **kwargs),
    torch.randint: _row_of_integers,
}
