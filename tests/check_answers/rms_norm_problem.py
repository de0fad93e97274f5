"""Level 1: RMS norm over the channels of an image."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x / (x.square().mean(dim=1, keepdim=True) + self.eps).sqrt()


def get_inputs():
    return [torch.randn(16, 64, 256, 256)]


def get_init_inputs():
    return [1e-5]
