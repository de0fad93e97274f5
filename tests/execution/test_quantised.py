"""Quantised tensors stand for the numbers that their format says."""

import pytest
import torch

from harness.suite import dequantised


def test_rows_and_groups_have_scales_and_zero_points() -> None:
    stored = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=torch.int8)
    by_row = dequantised(stored, torch.tensor([[0.5], [2.0]], dtype=torch.float64))
    assert by_row.tolist() == [[0.5, 1.0, 1.5, 2.0], [10.0, 12.0, 14.0, 16.0]]
    scales, zeros = torch.tensor([[1.0, 10.0], [1.0, 100.0]]), torch.tensor([[1, 0], [0, 8]])
    assert dequantised(stored, scales, group=2, zero=zeros).tolist() == [[0, 1, 30, 40], [5, 6, -100, 0]]
    ragged = dequantised(torch.ones(1, 5, dtype=torch.int32), torch.tensor([[1.0, 2.0]]), group=4)
    assert ragged.tolist() == [[1, 1, 1, 1, 2]]


@pytest.mark.parametrize(
    ("packed", "numbers"),
    [
        ("uint4", [1.0, 15.0, 8.0, 7.0]),
        ("int4", [1.0, -1.0, -8.0, 7.0]),
        ("fp4", [0.5, -6.0, -0.0, 6.0]),
    ],
)
def test_bytes_hold_two_numbers_the_low_bits_first(packed: str, numbers: list[float]) -> None:
    stored = torch.tensor([[0xF1, 0x78]], dtype=torch.uint8)
    assert dequantised(stored, torch.ones(1, 1), packed=packed).tolist() == [numbers]


def test_bytes_as_scales_are_exponents() -> None:
    scale = torch.tensor([[0], [127], [130], [255]], dtype=torch.uint8)
    values = dequantised(torch.ones(4, 1, dtype=torch.float8_e4m3fn), scale).flatten().tolist()
    assert values[:3] == [2.0**-127, 1.0, 8.0]
    assert values[3] != values[3]
