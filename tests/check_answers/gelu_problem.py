"""Level 1: GELU in its approximation by tanh."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.rand(128, 4096, 1024) * 4 - 2]


def get_init_inputs():
    return []
