"""The progress of a campaign: two live lines on a terminal, otherwise a plain line every few seconds."""

import re
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from harness.model.case import Case
from harness.model.verdict import Fail
from harness.reports.interrupts import Interrupts
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.deadline import Deadline
from harness.search.triage_queue import TriageProgress
from harness.wording import counted, visible

PLAIN_EVERY_S = 5.0
SAME_EVERY_S = 30.0
"""A plain line that says the same as the last one comes less often."""
DURATION = re.compile(r"\d+:\d\d left|for \d+ s")
MOST_REASONS = 3
"""So many different reasons to abstain are printed while the search runs; its summary has all."""
ESTIMATE_FROM = 3
"""So many cases must be done before the time that is left can be estimated."""


class Progress:
    """An observer of a campaign and its triage; as a context manager it restores the terminal."""

    def __init__(
        self,
        console: Console,
        interrupts: Interrupts,
        limit: int | Deadline,
        on_sighting: Callable[[Fail, Trial], None] = lambda _, __: None,
        activity: Callable[[], str] = lambda: "",
    ) -> None:
        """`limit` is the number of cases, or the moment at which the search ends, triage included.

        `on_sighting` is called before a new failure is printed.  `activity` returns what cases wait for: it is shown
        until the first one is done.
        """
        self._console = console
        self._interrupts = interrupts
        self._on_sighting = on_sighting
        self._activity = activity
        self._cases = limit if isinstance(limit, int) else None
        self._deadline = limit if isinstance(limit, Deadline) else None
        self._begun = self.now()
        self._printed_at = self._begun
        self._reasons: set[str] = set()
        """The reasons to abstain that were printed."""
        self._last = ""
        """The last plain line, without what changes by itself."""
        self._first: tuple[int, float] | None = None
        """The number of cases at the first tick with a finished case, and its time."""
        self._head = "starting workers"
        self._trying = ""
        self._spinner = Spinner("dots")
        live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, refresh_per_second=8, transient=True) if live else None

    def now(self) -> float:
        """Return the time on a clock that only moves on, in seconds."""
        return time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def tick(self, statistics: CampaignStatistics, trying: Case | None) -> None:
        """Update after a case, or after some time without one."""
        if not statistics.cases:
            self._head = f"no case is done yet: {self._activity() or 'drawing the first ones'}"
        else:
            self._head = " · ".join(self._parts(statistics))
        self._print_reasons(statistics)
        self.trying(trying)

    def _print_reasons(self, statistics: CampaignStatistics) -> None:
        """Print why cases cannot be checked at the first of each kind: the user may end the search and mend it."""
        for reason in tuple(statistics.reasons)[:MOST_REASONS]:
            if reason not in self._reasons:
                self._reasons.add(reason)
                self._print(f"cannot check a case: {reason}")

    def _parts(self, statistics: CampaignStatistics) -> Iterator[str]:
        # A search may run more than it was asked for: a paired run that breaks off becomes a case of its own.
        of = "" if self._cases is None or statistics.cases > self._cases else f" of {self._cases:,}"
        yield f"{statistics.cases:,}{of} cases" if of else counted(statistics.cases, "case")
        yield f"{statistics.cases / max(statistics.seconds, 0.001):.1f}/s"
        yield f"{counted(len(statistics.sightings), 'failure')} seen"
        if statistics.abstained:
            yield f"{statistics.abstained:,} abstained"
        if self._deadline is not None:
            yield left(self._deadline)
        elif (seconds := self._estimate_s(statistics.cases)) is not None:
            yield f"about {minutes_of(seconds)} left"

    def _estimate_s(self, done: int) -> float | None:
        """Estimate the seconds that are left from all cases but the first ones, which load libraries."""
        now = self.now()
        if self._first is None:
            self._first = (done, now)
        first, since = self._first
        if self._cases is None or done - first < ESTIMATE_FROM:
            return None
        return max(0, self._cases - done) * (now - since) / (done - first)

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """Print a failure with a new signature."""
        self._on_sighting(fail, trial)
        self._print(f"seen: {fail.signature.severity}, {fail.signature}")

    def triaging(self, progress: TriageProgress) -> None:
        """Show how far triage is."""
        if progress.confirmed < progress.sightings:
            head = f"confirmed {progress.confirmed} of {progress.sightings} failures"
        else:
            head = f"shrunk {progress.finished} of {progress.sightings} failures"
        self._head = f"{head} · {left(progress.deadline)}"
        self._show()

    def trying(self, case: Case | None) -> None:
        """Show which case runs next."""
        self._trying = str(case) if case else ""
        self._show()

    def _show(self) -> None:
        self._interrupts.check()
        now = self.now()
        if self._live:
            head = f"{self._head} · {minutes_of(now - self._begun)}"
            self._spinner.text = Text(head, no_wrap=True, overflow="ellipsis")
            table = Table.grid()
            table.add_row(self._spinner)
            table.add_row(Text(f"  {self._trying}", style="dim", no_wrap=True, overflow="ellipsis"))
            self._live.update(table)
        elif now - self._printed_at >= (SAME_EVERY_S if self._same() == self._last else PLAIN_EVERY_S):
            self._printed_at, self._last = now, self._same()
            self._print(f"{self._head}; trying {self._trying}" if self._trying else self._head)

    def _same(self) -> str:
        """Return what the next plain line says, without durations."""
        return DURATION.sub("", f"{self._head}; {self._trying}")

    def _print(self, line: str) -> None:
        self._console.print(Text(visible(line)), soft_wrap=not self._console.is_terminal)


def left(deadline: Deadline) -> str:
    """Return the time until then: `0:41 left`."""
    return f"{minutes_of(deadline.left_s)} left"


def minutes_of(seconds: float) -> str:
    """Return a duration as `0:41`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
