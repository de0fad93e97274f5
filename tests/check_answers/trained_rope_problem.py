"""A problem whose inputs require gradients."""

import torch
from torch import nn


class Model(nn.Module):
    """Rotary embedding, rotate-half form, on (batch, heads, time, dim)."""

    def __init__(self):
        super().__init__()

    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


def get_inputs():
    T, D = 40, 32
    angle = torch.rand(T, D // 2) * 6.0
    return [torch.randn(2, 4, T, D, requires_grad=True), torch.cos(angle), torch.sin(angle)]


def get_init_inputs():
    return []
