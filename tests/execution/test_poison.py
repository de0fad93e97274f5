"""Poison marks memory that was never written, also in copies."""

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from harness.execution.poison import PATTERNS, FreshMemory, count_poison

FACTORIES = {
    "empty": lambda dtype: torch.empty(3, 4, dtype=dtype),
    "empty_like": lambda dtype: torch.empty_like(torch.zeros(3, 4, dtype=dtype)),
    "new_empty": lambda dtype: torch.zeros(1, dtype=dtype).new_empty(3, 4),
    "empty_strided": lambda dtype: torch.empty_strided((3, 4), (5, 1), dtype=dtype),
    "new_empty_strided": lambda dtype: torch.zeros(1, dtype=dtype).new_empty_strided((3, 4), (1, 3)),
}


@pytest.mark.parametrize("dtype", list(PATTERNS), ids=str)
@pytest.mark.parametrize("factory", FACTORIES)
def test_fresh_memory_is_poisoned_until_it_is_written(factory: str, dtype: torch.dtype) -> None:
    with FreshMemory() as fresh:
        made = FACTORIES[factory](dtype)
    poison = fresh.poison_of(made.untyped_storage().data_ptr())
    assert poison is not None
    assert poison.size == made.element_size()
    assert count_poison(made) == (12, (0, 0))
    made[0] = 1
    made[2, 1] = 0
    for copy in (made, made.clone(), made.contiguous(), made[:, :], made.T.contiguous().T, torch.cat([made])):
        assert count_poison(copy) == (7, (1, 0))
    assert count_poison(made[2, 1:2]) == (0, None)
    fresh.forget()
    assert fresh.poison_of(made.untyped_storage().data_ptr()) is None


def test_initialised_memory_is_not_poisoned() -> None:
    with FreshMemory() as fresh:
        made = [torch.zeros(3), torch.ones(3), torch.full((3,), 2.0), torch.randn(3), torch.tensor([1.0])]
        byte = torch.empty(3, dtype=torch.uint8)
        nothing = torch.empty(0)
    assert [fresh.poison_of(value.untyped_storage().data_ptr()) for value in made] == [None] * 5
    assert [count_poison(value) for value in (*made, byte, nothing)] == [(0, None)] * 7


def test_fresh_bytes_never_hold_earlier_results() -> None:
    for dtype, fill in ((torch.int8, -91), (torch.uint8, 165), (torch.float8_e4m3fn, -0.203125), (torch.bool, 0)):
        torch.ones(4096, dtype=torch.uint8)  # freed at once: the next memory may be the same
        with FreshMemory():
            made = torch.empty(4096, dtype=dtype)
        assert made.to(torch.float32).unique().tolist() == [fill]


def test_no_address_is_allocated_twice_within_a_case() -> None:
    with FreshMemory():
        addresses = [torch.empty(1 << 12).data_ptr() for _ in range(20)]
    assert len(set(addresses)) == 20


def test_memory_is_only_poisoned_while_the_library_runs() -> None:
    fresh = FreshMemory()
    with fresh:
        pass
    assert fresh.poison_of(torch.empty(3).untyped_storage().data_ptr()) is None


class Counting(TorchFunctionMode):
    """Counts the calls of torch that reach it."""

    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_questions_about_a_tensor_do_not_reach_the_modes_below() -> None:
    values = torch.zeros(3, 4)
    with Counting() as below, FreshMemory():
        answers = (values.dtype, values.shape, values.size(1), values.stride(), values.numel(), values.data_ptr())
        assert below.calls == 0
        assert values.device.type == "cpu"  # a GPU's tensor is elsewhere
        assert below.calls == 1
    assert answers == (torch.float32, (3, 4), 4, (4, 1), 12, values.data_ptr())
