"""The estimate of a definition's memory, and cases that are refused because of it."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from harness.errors import CannotExecute
from harness.execution.definition_memory import MIB, MOST_CALLS, DefinitionMemory, estimated_bytes
from harness.execution.execution import Execution
from harness.model.case import Case, DType
from harness.model.input_spec import Segments, Tensor
from harness.model.op import Dim, Op
from harness.model.run import Unsupported
from tests.execution.ops_for_tests import DEVICE

SQUARE = 8 * 4096**2
"""Bytes of a matrix of all pairs of 4096 tokens."""
STATE = 8 * 4096 * 64


def attention(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(x.shape[0])
    masked = (x @ x.T).masked_fill(rows[:, None] < rows, -torch.inf)
    return masked.softmax(-1) @ x


def recurrence(x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(x.shape[1], 64, dtype=x.dtype)
    for row in x[:100]:
        state = state * row[:, None].sigmoid() + 1
    return state


def by_sequence(x: torch.Tensor, cu: torch.Tensor) -> torch.Tensor:
    ends = cu.tolist()
    return torch.cat([attention(x[start:end]) for start, end in pairwise(ends)])


def branching(x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.T
    return scores.exp() if bool((scores > 0).any()) else scores @ scores


def op(definition: Callable[..., Any]) -> Op:
    inputs = {"x": Tensor(shape=("T", "D"))}
    if definition is by_sequence:
        inputs = {**inputs, "cu": Segments(total="T", count="N")}
    dims = {name: Dim(low=1, high=1 << 17, grows=name == "T") for name in ("T", "D", "N")}
    return Op(name="op", suite="tests", call=definition, reference=definition, dims=dims, inputs=inputs)


def sized(tokens: int, width: int = 8, sequences: int = 1) -> Case:
    return Case(op="tests:op", dims={"T": tokens, "D": width, "N": sequences}, dtype=DType.FP32, device=DEVICE)


def test_a_definition_of_all_pairs_is_quadratic() -> None:
    estimate = estimated_bytes(op(attention), sized(4096))
    assert 5 * SQUARE <= estimate < 7 * SQUARE
    assert estimated_bytes(op(attention), sized(8192)) == pytest.approx(4 * estimate, rel=0.01)


def test_a_loop_keeps_the_states_of_all_steps() -> None:
    assert 100 * STATE <= estimated_bytes(op(recurrence), sized(4096, width=4096)) < 115 * STATE


def test_a_definition_may_loop_over_sequences() -> None:
    assert estimated_bytes(op(by_sequence), sized(8192, sequences=1)) > 20 * SQUARE
    assert estimated_bytes(op(by_sequence), sized(8192, sequences=8192)) < SQUARE


def test_a_branch_on_values_ends_the_estimate() -> None:
    assert 4 * SQUARE <= estimated_bytes(op(branching), sized(4096)) < 6 * SQUARE


def test_a_case_beyond_the_bound_is_not_run() -> None:
    ending, results = Execution(nullcontext).run(op(attention), sized(1 << 16, width=1))
    assert results == ()
    assert isinstance(ending, Unsupported)
    assert ending.what == "a definition that needs more than 1024 MiB of memory"


def test_an_estimate_ends_with_a_long_loop() -> None:
    calls: list[int] = []

    def endless(x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x + 1
            calls.append(1)

    estimated_bytes(op(endless), sized(4))
    assert len(calls) == MOST_CALLS


def test_sizes_below_those_that_fit_are_not_estimated_again() -> None:
    calls: list[int] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape[0])
        return attention(x)

    bound, counting = DefinitionMemory(most_bytes=7 * SQUARE), op(counted)
    for tokens in (4096, 4095, 4096, 2048):
        bound.check(counting, sized(tokens))
    assert calls == [4096]
    with pytest.raises(CannotExecute, match=f"more than {7 * SQUARE // MIB} MiB of memory"):
        bound.check(counting, sized(8192))
    bound.check(counting, replace(sized(4096), options={"causal": True}))
    assert calls == [4096, 8192, 4096]
