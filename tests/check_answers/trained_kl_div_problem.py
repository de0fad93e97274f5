"""A problem whose inputs require gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """KL divergence of probabilities p from log-probabilities log_q, batchmean."""

    def __init__(self):
        super().__init__()

    def forward(self, log_q, p):
        return F.kl_div(log_q, p, reduction="batchmean")


def get_inputs():
    log_q = torch.log_softmax(torch.randn(64, 512), dim=-1).requires_grad_()
    p = torch.softmax(torch.randn(64, 512), dim=-1)
    return [log_q, p]


def get_init_inputs():
    return []
