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


@contextmanager
def noting(notes: list[str]) -> Generator[None]:
    """Collect the notes of this thread, if the suite has imported Hypothesis."""
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
    with control._current_build_context.with_value(example), reporting.with_reporter(keep):  # noqa: SLF001 - tests/ops/test_hypothesis_notes.py checks it
        yield
