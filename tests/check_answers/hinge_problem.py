"""Level 1: the hinge loss of each number, with labels -1 and 1."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, predictions, labels):
        return torch.clamp(1 - predictions * labels, min=0)


def get_inputs():
    return [torch.randn(32, 512), torch.randint(0, 2, (32, 512)).float() * 2 - 1]


def get_init_inputs():
    return []
