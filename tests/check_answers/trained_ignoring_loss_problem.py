"""A problem whose inputs require gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Cross entropy with label smoothing and an ignored label, mean over the rest."""

    def __init__(self, smoothing, ignore_index):
        super().__init__()
        self.smoothing = smoothing
        self.ignore_index = ignore_index

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, ignore_index=self.ignore_index, label_smoothing=self.smoothing)


def get_inputs():
    return [torch.randn(96, 100, requires_grad=True), torch.randint(0, 100, (96,))]


def get_init_inputs():
    return [0.1, -100]
