"""Level 2: a linear layer, then a rectifier."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.linear = nn.Linear(features, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(1024, 48)]


def get_init_inputs():
    return [48, 40]
