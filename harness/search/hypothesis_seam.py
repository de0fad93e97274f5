"""The one private name of Hypothesis that the harness replaces; tests/search/test_hypothesis_seam.py checks it.

Releases after 6.131.0 draw one integer in twenty from the literals of the process's modules, except those in
site-packages.  The cases of a seed would then depend on the modules that a process has imported, and on how the harness
is installed.  No setting disables these literals.  Another backend than Hypothesis's own would change how it shrinks.
"""

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from hypothesis.internal.conjecture import data

PROVIDER = data.HypothesisProvider  # pyright: ignore[reportPrivateImportUsage] - all releases have it there
LITERALS = "_maybe_draw_constant"
"""The provider's method that returns a literal, or None to draw from the whole range."""


@contextmanager
def seed_alone() -> Generator[None]:
    """Make all draws of Hypothesis depend on the seed alone, in every thread, while the block runs."""
    _replacement.begin()
    try:
        yield
    finally:
        _replacement.end()


class _Replacement:
    """Replaces the provider's method while any thread draws: several searches may run at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._drawing = 0
        self._original: Any = None
        """The provider's own method; None in a release that draws no literals."""

    def begin(self) -> None:
        with self._lock:
            self._drawing += 1
            if self._drawing == 1:
                self._original = getattr(PROVIDER, LITERALS, None)
                if self._original is not None:
                    setattr(PROVIDER, LITERALS, _no_literal)

    def end(self) -> None:
        with self._lock:
            self._drawing -= 1
            if not self._drawing and self._original is not None:
                setattr(PROVIDER, LITERALS, self._original)


def _no_literal(*_: object, **__: object) -> None:
    return None


_replacement = _Replacement()
