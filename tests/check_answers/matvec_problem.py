"""Level 1: a product of a matrix and a vector."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.rand(2048, 131072), torch.rand(131072, 1)]


def get_init_inputs():
    return []
