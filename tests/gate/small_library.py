"""A git repository with a small library of Triton kernels and its suite, for tests of `harness gate`."""

from pathlib import Path

from tests.findings.bisection.test_worktrees import Git

SUITE = """
from harness.suite import op, tensor, tokens

@op(dims={"T": tokens(2048, grows=False)}, inputs={"x": tensor("T")})
def double(x):
    from small import doubling

    return doubling.double(x)

@double.reference
def _(x):
    return 2 * x

@op(dims={"T": tokens(2048, grows=False)}, inputs={"x": tensor("T")})
def negate(x):
    from small.negation import negate

    return negate(x)

@negate.reference
def _(x):
    return -x
"""
DOUBLING = '''
"""Doubles numbers."""

import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(y + at, 2 * values, mask=at < n)

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y

    @staticmethod
    def backward(ctx, dy):
        return 2 * dy

def double(x):
    return Double.apply(x.contiguous())
'''
NEGATION = DOUBLING.replace("2 * ", "-").replace("double", "negate").replace("Double", "Negate")
MASKED = "tl.store(y + at, 2 * values, mask=at < n)"
UNMASKED = "tl.store(y + at, 2 * values)"


def small_repository(folder: Path) -> Git:
    """Return a repository whose branch `main` has one commit: a library without a bug, and its suite."""
    git = Git(folder)
    for name, text in {
        "small/__init__.py": "",
        "small/doubling.py": DOUBLING,
        "small/negation.py": NEGATION,
        "suites/two.py": SUITE,
        "README.md": "Kernels.\n",
        "pyproject.toml": '[tool.kernel-harness]\ndevice = "rtx-pro-6000"\n',
        ".gitignore": ".harness\n__pycache__\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git.commit("A library")
    return git


def edit(git: Git, file: str, old: str, new: str) -> None:
    """Replace a text of a file in the working tree."""
    path = git.folder / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
