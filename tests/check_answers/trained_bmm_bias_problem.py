"""A problem whose inputs require gradients."""

import torch
from torch import nn


class Model(nn.Module):
    """Batched matmul plus a bias per batch and output column."""

    def __init__(self):
        super().__init__()

    def forward(self, a, b, bias):
        return torch.bmm(a, b) + bias[:, None, :]


def get_inputs():
    return [torch.randn(4, 64, 64), torch.randn(4, 64, 64), torch.randn(4, 64)]


def get_init_inputs():
    return []
