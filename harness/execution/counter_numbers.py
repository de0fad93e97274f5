"""Random numbers by counter: each follows from a seed and its place, so a CPU and a GPU draw the same bits.

Torch's generators draw in sequence on a CPU, in half a second for a hundred million numbers, and draw others on a GPU.
These here take milliseconds on a GPU.  All steps are integer arithmetic, or single operations of float32 that IEEE 754
defines to the bit.  The mixing function is that of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
"""

from collections.abc import Iterator
from functools import cache
from math import prod
from statistics import NormalDist

import torch

LARGE = 1 << 24
"""Tensors of more elements are drawn by counter."""
SLAB = 1 << 24
"""Numbers that are drawn at once, which bounds the memory of intermediate steps; even."""
STEP = -0x61C8864680B583EB
FIRST_FACTOR, SECOND_FACTOR = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
TABLE_BITS = FINE_BITS = 16
"""A normal number takes half of 64 bits: one of 2^16 quantiles, times a factor near 1 for the digits below."""
FINE_SCALE = 2.0 ** -(FINE_BITS + 13)
CPU = torch.device("cpu")


def normal(seed: int, shape: tuple[int, ...], device: torch.device = CPU) -> torch.Tensor:
    """Return normally distributed numbers in float32, of 0 mean and a deviation of 1; equal bits on every device."""
    size = prod(shape)
    values = torch.empty(size, dtype=torch.float32, device=device)
    table = _quantiles().to(device)
    for begin, end in _slabs(size):
        bits = _mixed(_places(begin // 2, -(-end // 2), seed, device)).view(torch.int32)[: end - begin]
        fine = (bits & ((1 << FINE_BITS) - 1)).to(torch.float32).mul_(FINE_SCALE).add_(1.0)
        coarse = (bits >> FINE_BITS).add_(1 << (TABLE_BITS - 1))
        torch.mul(table.index_select(0, coarse), fine, out=values[begin:end])
    return values.view(shape)


def signs(seed: int, size: int, device: torch.device = CPU) -> torch.Tensor:
    """Return -1 or 1 for each place, in float64."""
    drawn = torch.empty(size, dtype=torch.float64, device=device)
    for begin, end in _slabs(size):
        drawn[begin:end] = (_mixed(_places(begin, end, seed, device)) >> 63) * 2 + 1
    return drawn


def checksum(words: torch.Tensor) -> int:
    """Return a sum of 64 bits that follows from each word and its place; `words` are integers of 64 bits."""
    total = 0
    for begin, end in _slabs(words.numel()):
        total += int(_mixed(_places(begin, end, 0, words.device) ^ _mixed(words[begin:end])).sum())
    return total % (1 << 64)


def _slabs(size: int) -> Iterator[tuple[int, int]]:
    return ((begin, min(begin + SLAB, size)) for begin in range(0, size, SLAB))


def _places(begin: int, end: int, seed: int, device: torch.device) -> torch.Tensor:
    signed = seed % (1 << 63)
    return torch.arange(begin + 1, end + 1, dtype=torch.int64, device=device).mul_(STEP).add_(signed)


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    bits = (bits ^ _shifted(bits, 30)).mul_(FIRST_FACTOR)
    bits = bits.bitwise_xor_(_shifted(bits, 27)).mul_(SECOND_FACTOR)
    return bits.bitwise_xor_(_shifted(bits, 31))


def _shifted(bits: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right, with zeros from the left."""
    return (bits >> by).bitwise_and_((1 << (64 - by)) - 1)


@cache
def _quantiles() -> torch.Tensor:
    """Return the normal quantiles in the middle of equal shares, in ascending order."""
    half = 1 << (TABLE_BITS - 1)
    distribution = NormalDist()
    positive = [distribution.inv_cdf(0.5 + (index + 0.5) / (2 * half)) for index in range(half)]
    return torch.tensor([*(-value for value in reversed(positive)), *positive], dtype=torch.float32)
