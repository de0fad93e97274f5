"""Level 1: a product of matrices."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(2048, 8192), torch.rand(8192, 4096)]


def get_init_inputs():
    return []
