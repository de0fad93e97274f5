"""A call of an op in a CUDA graph: it is captured once, and replayed with other values in the same inputs.

Each replay is compared with a call without a graph, which gets the same values in the same memory afterwards.  The
backward pass is part of the call if the case asks for gradients, as where a whole step of training is captured.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from harness.engines.torch.captured_graphs import capture_of
from harness.engines.torch.outside_memory import OutsideMemory
from harness.engines.torch.torch_seam import plain_torch
from harness.execution.compare import digests
from harness.execution.inputs import make_inputs
from harness.execution.result_forms import Tensors
from harness.model.case import Case
from harness.model.input_spec import Tensor
from harness.model.later_calls import ChangedInputs
from harness.model.op import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatableCall:
    """A call that reads the same memory each time."""

    op: Op
    case: Case
    """That `inputs` are of."""
    inputs: Tensors
    """The tensors that the call gets, by name.  They are changed."""
    call: Callable[[], Tensors]
    """Calls the op with the inputs, backward included, and returns its results."""
    cotangents: Tensors
    """What the backward pass gets, by output; filled by the first call.  They are changed."""
    draw_cotangents: Callable[[Case], Tensors]
    """Returns the cotangents of a case with the same outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedCall:
    """A call in a graph.  It keeps what the program would hold while it uses the graph."""

    repeatable: RepeatableCall
    outside: OutsideMemory
    """What the graph uses of the program's memory."""
    graph: torch.cuda.CUDAGraph
    differing: Mapping[ChangedInputs, tuple[str, ...]]
    """As `GraphReplay.differing`."""
    reordered: tuple[str, ...] = ()
    """As `GraphReplay.reordered`."""
    beside: tuple[str, ...] = ()
    """As `GraphReplay.beside`."""


def replay_captured(repeatable: RepeatableCall) -> CapturedCall:
    """Capture a call, replay it, and compare the results of replays with those of calls.

    Raises:
        HostRead: host code of the call reads a tensor.
        Exception: what the op raises, or a launch of a replay.
    """
    call = repeatable.call
    call()  # as users do before a capture: a first call may compile, tune and allocate
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()
    differing: dict[ChangedInputs, tuple[str, ...]] = {}
    reordered: tuple[str, ...] = ()
    captured = capture_of(graph)
    for changed, values in _changes(repeatable):
        _set(repeatable, values)
        graph.replay()
        replayed = _bits(results)
        _set(repeatable, values)
        expected = _bits(call())
        if names := _differing(expected, replayed):
            differing[changed] = names
            continue
        for order in captured.order.other_orders():
            _set(repeatable, values)
            captured.replay(order)
            reordered = reordered or _differing(expected, _bits(results))
    return CapturedCall(
        repeatable=repeatable, outside=captured.outside, graph=graph, differing=differing, reordered=reordered
    )


def replay_on_two_streams(first: RepeatableCall, second: RepeatableCall) -> tuple[str, ...]:
    """Capture two calls on streams that no event orders, and replay them in turns and in the other order.

    Returns the results of either call that differ from those of the call by itself.
    """
    calls = first, second
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    values: list[_Values] = []
    expected: list[Mapping[str, str]] = []
    for each in calls:
        each.call()  # as before any capture
        with plain_torch():
            values.append(_Values(_copies(each.inputs), _copies(each.cotangents)))
        expected.append(_bits(each.call()))
        _set(each, values[-1])
    with torch.cuda.graph(graph):
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        results = [first.call()]
        with torch.cuda.stream(side):
            results.append(second.call())
        here.wait_stream(side)
    captured = capture_of(graph)
    for order in captured.order.other_orders():
        for each, own in zip(calls, values, strict=True):
            _set(each, own)
        captured.replay(order)
        for bits, got in zip(expected, results, strict=True):
            if names := _differing(bits, _bits(got)):
                return names
    return ()


def _differing(expected: Mapping[str, str], replayed: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, bits in expected.items() if replayed.get(name) != bits)


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of inputs and cotangents, by name."""

    inputs: Tensors
    cotangents: Tensors


def _changes(repeatable: RepeatableCall) -> Iterator[tuple[ChangedInputs, _Values]]:
    """Yield what is changed, with the values of all inputs and cotangents after it."""
    op, case = repeatable.op, repeatable.case
    other_case = replace(case, seed=case.seed + 1)
    with plain_torch():
        own = _Values(_copies(repeatable.inputs), _copies(repeatable.cotangents))
        fitting = _fitting(make_inputs(op, other_case), own.inputs)
        cotangents = {**own.cotangents, **_fitting(repeatable.draw_cotangents(other_case), own.cotangents)}
    numbers = {name: value for name, value in fitting.items() if isinstance(op.inputs[name], Tensor)}
    yield ChangedInputs.NONE, own
    if numbers or cotangents:
        yield ChangedInputs.NUMBERS, _Values({**own.inputs, **numbers}, cotangents)
    if len(fitting) > len(numbers):
        yield ChangedInputs.ALL, _Values({**own.inputs, **fitting}, cotangents)


def _copies(tensors: Tensors) -> Tensors:
    return {name: value.detach().clone() for name, value in tensors.items()}


def _fitting(others: Mapping[str, torch.Tensor | None], own: Tensors) -> Tensors:
    """Return the others of the same shapes: the seed also chooses along which axes an input has one element."""
    return {
        name: value.detach()
        for name, value in others.items()
        if value is not None and name in own and value.shape == own[name].shape
    }


def _set(repeatable: RepeatableCall, values: _Values) -> None:
    with plain_torch(), torch.no_grad():
        for own, new in ((repeatable.inputs, values.inputs), (repeatable.cotangents, values.cotangents)):
            for name, value in new.items():
                own[name].copy_(value)


def _bits(results: Tensors) -> Mapping[str, str]:
    with plain_torch():
        return digests(results)
