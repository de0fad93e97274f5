"""A problem whose inputs require gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Group norm on (N, C, H, W)."""

    def __init__(self, groups, eps):
        super().__init__()
        self.groups = groups
        self.eps = eps

    def forward(self, x, weight, bias):
        return F.group_norm(x, self.groups, weight, bias, self.eps)


def get_inputs():
    return [
        torch.randn(4, 8, 16, 16, requires_grad=True),
        torch.rand(8, requires_grad=True),
        torch.randn(8, requires_grad=True),
    ]


def get_init_inputs():
    return [4, 1e-5]
