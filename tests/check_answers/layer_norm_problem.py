"""Level 1: layer norm with weight and bias."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(16, 512, 64)]


def get_init_inputs():
    return [64]
