"""The plan: everything that a person asked of a search, in the words of the command line.

A command line, pytest's options, a chunk's file and Python each write one.  `harness.search.options` loads what it
names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.case import Case
from harness.model.engine_traits import VIRTUAL

TIME_LIMIT_S = 60.0
TRIAGE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to search.  Equal plans with a number of cases draw equal cases, on any machine."""

    suites: tuple[str, ...]
    """By their names in cases."""
    op: tuple[str, ...] = ()
    """Empty: all ops of the suites."""
    device: str | None = None
    """As `--device` takes it.  None: the own model of the hardware GPU, or the usual GPUs."""
    sm: int | None = None
    """The SM count of every case.  None: the device's own, and others."""
    env: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    cases: int | None = None
    seconds: float | None = None
    """Instead of a number of cases: the time for all of the search."""
    triage_seconds: float = TRIAGE_S
    """The time to confirm and shrink what `cases` found."""
    seed: int
    oracle: tuple[str, ...] = ()
    """Empty: all."""
    libraries: tuple[str, ...] = ()
    """As `--with` takes them."""
    engine: str = VIRTUAL.name
    sanitizer: str = ""
    isolation: str = "worker"
    time_limit_s: float = TIME_LIMIT_S
    first_cases: tuple[Case, ...] = ()
    """Cases to run before any is drawn, as far as the ops still have them; they count among `cases`."""
