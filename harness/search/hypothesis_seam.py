"""The one private name of Hypothesis that the harness replaces; tests/search/test_hypothesis_seam.py looks for it.

Releases after 6.131.0 draw one integer in twenty from the literals of the process's modules, those in site-packages
left out.  With them, the cases of a seed would depend on what a process has imported and on how the harness is
installed.  No setting leaves them out, and another backend than Hypothesis's own would change how it shrinks.
"""

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from hypothesis.internal.conjecture import data

PROVIDER = data.HypothesisProvider  # pyright: ignore[reportPrivateImportUsage] - where all releases have it
LITERALS = "_maybe_draw_constant"
"""The provider's method that gives a literal, or None for a draw from the whole range."""


@contextmanager
def seed_alone() -> Generator[None]:
    """What Hypothesis draws meanwhile, in any thread, depends on the seed alone."""
    _replacement.begin()
    try:
        yield
    finally:
        _replacement.end()


class _Replacement:
    """Of the provider's method, as long as any thread draws: searches may go on side by side."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._drawing = 0
        self._usual: Any = None
        """None in a release that draws no literals."""

    def begin(self) -> None:
        with self._lock:
            self._drawing += 1
            if self._drawing == 1:
                self._usual = getattr(PROVIDER, LITERALS, None)
                if self._usual is not None:
                    setattr(PROVIDER, LITERALS, _none)

    def end(self) -> None:
        with self._lock:
            self._drawing -= 1
            if not self._drawing and self._usual is not None:
                setattr(PROVIDER, LITERALS, self._usual)


def _none(*_: object, **__: object) -> None:
    """No literal."""


_replacement = _Replacement()
