"""The layout of a reduced text: formatted by ruff, without comments."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import libcst as cst

from harness.errors import MissingPart
from harness.extras import install_command
from harness.findings.reduction.text_size import LINE
from harness.findings.reduction.tree import Edit, Tree, replacement

_RUFF = (sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(LINE))
RUFF_LIMIT_S = 60.0
_JOINED = ("--config", "format.skip-magic-trailing-comma=true", "-")


def lay_out(text: str) -> str:
    """Format the text with ruff, which joins what fits on a line.

    Raises:
        MissingPart: ruff is not installed, refuses the text or does not end.
    """
    try:
        command = [*_RUFF, *_JOINED]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=RUFF_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise MissingPart(f"ruff did not format a reduced kernel within {RUFF_LIMIT_S:g} s") from None
    if done.returncode:
        raise MissingPart(f"ruff cannot format a reduced kernel: {done.stderr.strip()}; {install_command('repro')}")
    return done.stdout


def drop_comments(tree: Tree) -> Sequence[Edit]:
    """Drop all comments and blank lines at once: they describe the unreduced kernel."""
    return [replacement(tree.module, lambda module: module.visit(_Bare()))]


class _Bare(cst.CSTTransformer):
    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        match original_node:
            case cst.EmptyLine() | cst.Comment():
                return cst.RemoveFromParent()
            case cst.TrailingWhitespace():
                return cst.TrailingWhitespace()
            case _:
                return updated_node
