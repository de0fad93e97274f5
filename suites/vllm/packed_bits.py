"""Flags as bits, as the kernels of several libraries read them."""

import torch


def packed_bits(flags):
    """Pack flags into words of 32 bits, the first one lowest."""
    padded = torch.nn.functional.pad(flags, (0, -flags.shape[1] % 32)).long().unflatten(1, (-1, 32))
    words = (padded << torch.arange(32)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()
