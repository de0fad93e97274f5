"""Level 1: a convolution of each channel with its own filter."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, size, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(32, 24, 4096)]


def get_init_inputs():
    return [24, 3]
