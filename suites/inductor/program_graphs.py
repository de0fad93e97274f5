"""The operations of drawn programs, and their evaluation.  Each takes two tensors of shape (T, D) and returns one."""

# ruff: noqa: ARG001, ARG005 - an operation takes all values of its program, and uses some

import torch
from torch.nn import functional


def _product(x, y, w, index):
    return torch.tanh(x @ w / w.shape[0])


def _attention(x, y, w, index):
    scores = x[:64] @ y[:64].T / x.shape[1] ** 0.5
    return torch.cat([torch.softmax(scores, -1) @ y[:64], x[64:]])


def _layer_norm(x, y, w, index):
    return functional.layer_norm(x, x.shape[1:], eps=1e-2)


def _in_place_rows(x, y, w, index):
    z = x.clone()
    z[::2] += y[::2]
    return z


def _in_place_columns(x, y, w, index):
    z = x * 1.0
    z[:, 1:].mul_(0.5).add_(y[:, :-1])
    return z


def _scatter(x, y, w, index):
    return torch.zeros_like(x).index_add(0, index, y) + x


def _put(x, y, w, index):
    return x.index_put((index,), y, accumulate=True)


def _scatter_columns(x, y, w, index):
    columns = (index % x.shape[1]).unsqueeze(1).expand(-1, x.shape[1])
    return x.scatter_add(1, columns, y)


def _pad(x, y, w, index):
    return functional.pad(x, (1, 2, 3, 0))[3:, 1:-2] + functional.pad(y, (0, 0, 1, 1))[:-2]


def _strided(x, y, w, index):
    return torch.repeat_interleave(x[::2], 2, dim=0)[: x.shape[0]] + y


def _folded(x, y, w, index):
    return (x.reshape(-1) + y.T.contiguous().reshape(-1)).view(x.shape)


def _outer(x, y, w, index):
    return x + y.mean(0) * x.mean(1, keepdim=True)


def _stacked(x, y, w, index):
    return torch.stack([x, y, x * y], dim=1).mean(1)


def _windows(x, y, w, index):
    return functional.pad(x, (0, 0, 2, 0)).unfold(0, 3, 1).mean(-1) + y


def _causal(x, y, w, index):
    rows = torch.arange(x.shape[0], device=x.device)
    columns = torch.arange(x.shape[1], device=x.device)
    return torch.where(rows[:, None] >= columns[None, :], x, y * 0.5)


def _pooled(x, y, w, index):
    return functional.avg_pool1d(x.unsqueeze(0), 3, stride=1, padding=1).squeeze(0) + y


def _convolved(x, y, w, index):
    kernel = torch.softmax(y[0, :1] + torch.arange(3, device=x.device).to(x.dtype), 0).view(1, 1, 3)
    return functional.conv1d(x.unsqueeze(1), kernel, padding=1).squeeze(1)


def _halves(x, y, w, index):
    left, right = x.tensor_split(2, dim=1)
    return torch.cat([right, left], dim=1) + y


OPERATIONS = (
    lambda x, y, w, index: x + y,
    lambda x, y, w, index: x * y,
    lambda x, y, w, index: torch.relu(x) - y,
    lambda x, y, w, index: torch.sigmoid(x) * y,
    lambda x, y, w, index: functional.gelu(x),
    lambda x, y, w, index: torch.softmax(x, -1),
    lambda x, y, w, index: torch.softmax(x, 0) + y,
    lambda x, y, w, index: x - x.mean(-1, keepdim=True),
    lambda x, y, w, index: x - x.sum(0, keepdim=True) / x.shape[0],
    lambda x, y, w, index: x - torch.logsumexp(x, -1, keepdim=True),
    lambda x, y, w, index: torch.cumsum(x, 0) / x.shape[0],
    lambda x, y, w, index: torch.cumsum(x, 1) / x.shape[1] + y,
    lambda x, y, w, index: x.flip(0) + y.flip(1),
    lambda x, y, w, index: x.roll(1, 0) - y.roll(-1, 1),
    lambda x, y, w, index: x[index] + y,
    lambda x, y, w, index: x.clamp(-1, 1) + y.clamp_min(0),
    lambda x, y, w, index: torch.maximum(x, y),
    lambda x, y, w, index: torch.tanh(x + y.amax(-1, keepdim=True)),
    _product,
    _attention,
    _layer_norm,
    _in_place_rows,
    _in_place_columns,
    _scatter,
    _put,
    _scatter_columns,
    _pad,
    _strided,
    _folded,
    _outer,
    _stacked,
    _windows,
    _causal,
    _pooled,
    _convolved,
    _halves,
)


def run(plan, x, y, w, index):
    """Return the last node of the graph, and the sum over its rows."""
    values = [x, y]
    for operation, other in plan:
        values.append(OPERATIONS[operation](values[-1] if len(values) > 2 else x, values[other], w, index))
    return values[-1], values[-1].sum(0) / x.shape[0]
