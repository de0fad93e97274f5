"""Cheap tests for reductions, and a text to reduce."""

from collections.abc import Callable
from textwrap import dedent

from harness.findings.reduction.search import Pass, Search

IsInteresting = Callable[[str], bool]


def holds(*kept: str) -> IsInteresting:
    """The text still has these parts."""
    return lambda text: all(part in text for part in kept)


def always(_: str) -> bool:
    return True


def by(origin: str, offer: Pass, is_interesting: IsInteresting, *, by_halves: bool = True) -> str:
    """What one pass makes of a text."""
    search = Search(dedent(origin).lstrip(), is_interesting, seconds=60)
    search.take(offer, by_halves=by_halves)
    return search.text


LAUNCH = """
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x, unused, w, T, BLOCK: tl.constexpr, HAS_W: tl.constexpr = False):
        o = tl.arange(0, BLOCK)
        if HAS_W:
            o += tl.load(w)
        tl.store(x + o, 0, mask=o < T)

    def main(x):
        kernel[(1,)](x, x, None, T=3, BLOCK=4)
        kernel[(1,)](x, x, None, 3, BLOCK=4, HAS_W=False)
"""
