"""Matrix products of CPU tensors never read gaps between rows, and may have a wider result, as on a GPU."""

import math
from collections.abc import Callable

import pytest
import torch

from harness.engines.torch.cpu_tensors import CpuTensors
from harness.engines.torch.matrix_products import close_gaps

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

ROWS, INNER, COLUMNS = 118, 7, 5
"""Sizes at which oneDNN reads beyond rows on CPUs with AVX-512."""

A = torch.tensor([[1.0, 2**-7]], dtype=torch.bfloat16)
B = torch.tensor([[1.0], [2**-7]], dtype=torch.bfloat16)
EXACT = 1 + 2**-14
"""A value that bfloat16 rounds to 1."""


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
def test_gaps_between_rows_do_not_affect_products(product: Product, dtype: torch.dtype) -> None:
    x, w = among_nans(ROWS, INNER, dtype), among_nans(COLUMNS, INNER, dtype)
    expected = product(x.contiguous(), w.contiguous())
    with CpuTensors():
        result = product(x, w)
    assert torch.equal(result, expected)


def test_only_matrices_with_gaps_are_copied() -> None:
    x, w = among_nans(ROWS, INNER, torch.bfloat16), torch.ones(INNER, COLUMNS, dtype=torch.bfloat16)
    first, second = close_gaps(torch.mm, (x, w.t()))
    assert (first is x, first.is_contiguous()) == (False, True)
    assert torch.equal(first, x)
    assert second.data_ptr() == w.data_ptr()
    assert close_gaps(torch.add, (x, x))[0] is x


def test_torch_has_no_out_dtype_on_the_cpu() -> None:
    with pytest.raises(NotImplementedError, match="dtype"):
        torch.mm(A, B, out_dtype=torch.float32)


def test_a_product_is_summed_in_its_out_dtype() -> None:
    with CpuTensors():
        made = [
            torch.mm(A, B, out_dtype=torch.float32),
            torch.mm(A, B, torch.float32),
            torch.bmm(A[None], B[None], out_dtype=torch.float32)[0],
            torch.addmm(torch.ones(1, 1), A, B, out_dtype=torch.float32, beta=2, alpha=4),
        ]
    assert [one.dtype for one in made] == [torch.float32] * 4
    assert [one.item() for one in made] == [EXACT, EXACT, EXACT, 2 + 4 * EXACT]


def test_a_wide_product_may_write_to_its_input() -> None:
    total = torch.full((1, 1), 3.0)
    with CpuTensors():
        torch.addmm(total, A, B, out_dtype=torch.float32, out=total)
    assert total.item() == 3 + EXACT


def test_products_without_out_dtype_keep_their_type() -> None:
    with CpuTensors():
        assert torch.mm(A, B).dtype == torch.bfloat16
