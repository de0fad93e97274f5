"""Products with a wider result, which torch 2.13 refuses on the CPU."""

import pytest
import torch

from harness.devices.cpu_tensors import CpuTensors

A = torch.tensor([[1.0, 2**-7]], dtype=torch.bfloat16)
B = torch.tensor([[1.0], [2**-7]], dtype=torch.bfloat16)
EXACT = 1 + 2**-14
"""A bfloat16 result would round it to one."""


def test_torch_itself_has_no_wide_products_on_the_cpu() -> None:
    with pytest.raises(NotImplementedError, match="dtype"):
        torch.mm(A, B, out_dtype=torch.float32)


def test_a_product_is_summed_in_the_type_asked_for() -> None:
    with CpuTensors():
        made = [
            torch.mm(A, B, out_dtype=torch.float32),
            torch.mm(A, B, torch.float32),
            torch.bmm(A[None], B[None], out_dtype=torch.float32)[0],
            torch.addmm(torch.ones(1, 1), A, B, out_dtype=torch.float32, beta=2, alpha=4),
        ]
    assert [one.dtype for one in made] == [torch.float32] * 4
    assert [one.item() for one in made] == [EXACT, EXACT, EXACT, 2 + 4 * EXACT]


def test_a_wide_product_may_add_to_what_it_is_given() -> None:
    total = torch.full((1, 1), 3.0)
    with CpuTensors():
        torch.addmm(total, A, B, out_dtype=torch.float32, out=total)
    assert total.item() == 3 + EXACT


def test_other_products_are_left_alone() -> None:
    with CpuTensors():
        assert torch.mm(A, B).dtype == torch.bfloat16
