"""Level 1: a product with a diagonal matrix."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return torch.diag(a) @ b


def get_inputs():
    return [torch.rand(4096), torch.rand(4096, 4096)]


def get_init_inputs():
    return []
