"""On the virtual GPU, products of matrices see nothing of what lies between their rows."""

import math
from collections.abc import Callable

import pytest
import torch

from harness.devices.cpu_tensors import CpuTensors
from harness.devices.matrix_products import close_gaps

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

ROWS, INNER, COLUMNS = 118, 7, 5
"""Sizes at which oneDNN reads beyond rows on a CPU with AVX-512."""


def among_nans(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    held = torch.full((rows, columns + 8), math.nan, dtype=dtype)
    held[:, :columns] = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    return held[:, :columns]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x @ w.t(),
        lambda x, w: torch.mm(x, w.t()),
        lambda x, w: torch.bmm(x[None], w.t()[None])[0],
        lambda x, w: torch.addmm(torch.zeros(COLUMNS, dtype=x.dtype), x, w.t()),
        torch.nn.functional.linear,
        lambda x, w: torch.einsum("tk,nk->tn", x, w),
        lambda x, w: (w @ x.t()).t(),
    ],
)
def test_what_lies_between_rows_is_in_no_product(product: Product, dtype: torch.dtype) -> None:
    x, w = among_nans(ROWS, INNER, dtype), among_nans(COLUMNS, INNER, dtype)
    expected = product(x.contiguous(), w.contiguous())
    with CpuTensors():
        seen = product(x, w)
    assert torch.equal(seen, expected)


def test_only_matrices_with_gaps_are_copied() -> None:
    x, w = among_nans(ROWS, INNER, torch.bfloat16), torch.ones(INNER, COLUMNS, dtype=torch.bfloat16)
    first, second = close_gaps(torch.mm, (x, w.t()))
    assert (first is x, first.is_contiguous()) == (False, True)
    assert torch.equal(first, x)
    assert second.data_ptr() == w.data_ptr()
    assert close_gaps(torch.add, (x, x))[0] is x
