"""A call of an op in a CUDA graph: it is captured once, and replayed with other values in the same inputs.

Each replay is compared with a call without a graph, which gets the same values in the same memory afterwards.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from harness.engines.torch.torch_seam import plain_torch
from harness.execution.compare import digests
from harness.execution.inputs import make_inputs
from harness.execution.result_forms import Tensors
from harness.model.case import Case
from harness.model.input_spec import Tensor
from harness.model.later_calls import ChangedInputs
from harness.model.op import Op


def replay_captured(
    op: Op, case: Case, inputs: Tensors, call: Callable[[], Tensors]
) -> dict[ChangedInputs, tuple[str, ...]]:
    """Capture a call, replay it, and return the outputs that differ, by what was changed before.

    Args:
        op: the op.
        case: the case that `inputs` are of.
        inputs: the tensors that the call gets, by name.  They are changed.
        call: calls the op with the inputs, and returns its outputs.

    Raises:
        HostRead: host code of the call reads a tensor.
        Exception: what the op raises, or a launch of a replay.
    """
    call()  # as users do before a capture: a first call may compile, tune and allocate
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    outputs = call()
    graph.capture_end()
    differing: dict[ChangedInputs, tuple[str, ...]] = {}
    for changed, values in _changes(op, case, inputs):
        _set(inputs, values)
        graph.replay()
        replayed = _bits(outputs)
        _set(inputs, values)
        expected = _bits(call())
        if names := tuple(name for name, bits in expected.items() if replayed.get(name) != bits):
            differing[changed] = names
    return differing


def _changes(op: Op, case: Case, inputs: Tensors) -> Iterator[tuple[ChangedInputs, Tensors]]:
    """Yield what is changed, with the values of all inputs after it."""
    with plain_torch():
        own = {name: value.detach().clone() for name, value in inputs.items()}
        other = make_inputs(op, replace(case, seed=case.seed + 1))
        # The seed also chooses along which axes an input has one element.
        fitting = {
            name: value.detach()
            for name, value in other.items()
            if value is not None and name in own and value.shape == own[name].shape
        }
    numbers = {name: value for name, value in fitting.items() if isinstance(op.inputs[name], Tensor)}
    yield ChangedInputs.NONE, own
    if numbers:
        yield ChangedInputs.NUMBERS, {**own, **numbers}
    if len(fitting) > len(numbers):
        yield ChangedInputs.ALL, {**own, **fitting}


def _set(inputs: Tensors, values: Mapping[str, torch.Tensor]) -> None:
    with plain_torch(), torch.no_grad():
        for name, value in values.items():
            inputs[name].copy_(value)


def _bits(outputs: Tensors) -> Mapping[str, str]:
    with plain_torch():
        return digests(outputs)
