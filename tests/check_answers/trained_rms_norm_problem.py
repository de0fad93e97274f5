"""A problem whose inputs require gradients."""

import torch
from torch import nn


class Model(nn.Module):
    """RMSNorm over the last dimension, with a weight."""

    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x, weight):
        ms = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(ms + self.eps) * weight


def get_inputs():
    return [torch.randn(64, 256, requires_grad=True), torch.rand(256, requires_grad=True)]


def get_init_inputs():
    return [1e-6]
