"""The exact values beside the tensors of a case."""

import torch

from harness.execution.exact_memory import ExactMemory


def test_a_tensor_that_nothing_computed_is_exact() -> None:
    tensor = torch.tensor([1.5, 2.25], dtype=torch.bfloat16)
    assert ExactMemory().read(tensor).tolist() == [1.5, 2.25]


def test_an_exact_value_is_read_through_any_view() -> None:
    memory, tensor = ExactMemory(), torch.ones(2, 3, dtype=torch.bfloat16)
    memory.write(tensor, torch.arange(6, dtype=torch.float64).reshape(2, 3) + 0.001)
    assert memory.read(tensor.t()[1]).tolist() == [1.001, 4.001]


def test_a_store_that_was_not_followed_makes_the_exact_value_unknown() -> None:
    memory, tensor = ExactMemory(), torch.ones(2)
    memory.write(tensor, torch.tensor([1.25, 1.25], dtype=torch.float64))
    tensor[1] = 3.0
    first, second = memory.read(tensor)
    assert (float(first), bool(second.isnan())) == (1.25, True)


def test_a_new_tensor_at_an_old_address_is_exact() -> None:
    memory, tensor = ExactMemory(), torch.zeros(2)
    memory.write(tensor, torch.tensor([1e-9, 1e-9], dtype=torch.float64))
    memory.forget(tensor)
    assert memory.read(tensor).tolist() == [0.0, 0.0]


def test_the_exact_values_of_a_whole_storage_are_a_copy() -> None:
    memory, tensor, exact = ExactMemory(), torch.ones(2, 2), torch.full((), 1.25, dtype=torch.float64)
    memory.write(tensor, exact.expand(2, 2))
    exact.zero_()
    memory.write(tensor[0], torch.full((2,), 1.5, dtype=torch.float64))
    assert memory.read(tensor).tolist() == [[1.5, 1.5], [1.25, 1.25]]
    memory.read(tensor).zero_()
    assert memory.read(tensor.t())[1].tolist() == [1.5, 1.25]
