"""`hypothesis.note()` inside an op: what it says is kept with the run, as Hypothesis keeps it with an example.

Outside a test of Hypothesis, `note` raises.  An op is called outside of one, in a worker; so it gets a stand-in for
the example that Hypothesis would be running.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

MOST_NOTES = 100


_collecting: list[list[str]] = []
"""The notes of the op that runs now, innermost last."""


def note(text: str) -> None:
    """Add a note of the harness's own to those of the op that runs, in any thread and without Hypothesis."""
    if _collecting and len(_collecting[-1]) < MOST_NOTES:
        _collecting[-1].append(text)


@contextmanager
def noting(notes: list[str]) -> Generator[None]:
    """Collect what `note` adds, and the notes of this thread if the suite has imported Hypothesis."""
    _collecting.append(notes)
    try:
        with _noting_of_hypothesis(notes):
            yield
    finally:
        _collecting.pop()


@contextmanager
def _noting_of_hypothesis(notes: list[str]) -> Generator[None]:
    control: Any = sys.modules.get("hypothesis.control")
    reporting: Any = sys.modules.get("hypothesis.reporting")
    if control is None or reporting is None:
        yield
        return

    def keep(text: object) -> None:
        if len(notes) < MOST_NOTES:
            notes.append(str(text() if callable(text) else text))

    # `is_final` is that of a failing example, which Hypothesis runs again to report it.
    example = SimpleNamespace(is_final=True, data=SimpleNamespace(note=lambda _: None))
    with control._current_build_context.with_value(example), reporting.with_reporter(keep):  # noqa: SLF001 - tests/execution/test_hypothesis_notes.py checks it
        yield
