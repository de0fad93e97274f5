"""A problem whose inputs require gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Triplet margin loss, mean."""

    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin)


def get_inputs():
    return [torch.randn(128, 64, requires_grad=True) for _ in range(3)]


def get_init_inputs():
    return [1.0]
