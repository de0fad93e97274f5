"""The progress of a campaign: two live lines on a terminal, otherwise a plain line every few seconds."""

import time
from collections.abc import Callable
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

PLAIN_EVERY_S = 5.0


class Progress:
    """An observer of a campaign and its triage; as a context manager it restores the terminal."""

    def __init__(
        self,
        console: Console,
        interrupts: Interrupts,
        limit: int | Deadline,
        on_sighting: Callable[[Fail, Trial], None] = lambda _, __: None,
    ) -> None:
        """`limit` is the number of cases, or the moment at which the search ends, triage included.

        `on_sighting` is called before a new failure is printed.
        """
        self._console = console
        self._interrupts = interrupts
        self._on_sighting = on_sighting
        self._cases = limit if isinstance(limit, int) else None
        self._deadline = limit if isinstance(limit, Deadline) else None
        self._begun = time.monotonic()
        self._told = self._begun
        self._head = "starting workers"
        self._trying = ""
        self._spinner = Spinner("dots")
        live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, refresh_per_second=8, transient=True) if live else None

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
        of = f"/{self._cases}" if self._cases is not None else ""
        rate = statistics.cases / statistics.seconds if statistics.seconds else 0.0
        seen = len(statistics.sightings)
        parts = [
            f"{statistics.cases}{of} cases",
            f"{rate:.1f}/s",
            f"{seen} {'failure' if seen == 1 else 'failures'} seen",
        ]
        if statistics.abstained:
            parts.append(f"{statistics.abstained} abstained")
        if self._deadline is not None:
            parts.append(left(self._deadline))
        self._head = " · ".join(parts)
        self.trying(trying)

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
        now = time.monotonic()
        if self._live:
            minutes, seconds = divmod(int(now - self._begun), 60)
            self._spinner.text = Text(f"{self._head} · {minutes}:{seconds:02d}", no_wrap=True, overflow="ellipsis")
            table = Table.grid()
            table.add_row(self._spinner)
            table.add_row(Text(f"  {self._trying}", style="dim", no_wrap=True, overflow="ellipsis"))
            self._live.update(table)
        elif now - self._told >= PLAIN_EVERY_S:
            self._told = now
            self._print(f"{self._head}; trying {self._trying}" if self._trying else self._head)

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def left(deadline: Deadline) -> str:
    """Return the time until then: `0:41 left`."""
    minutes, seconds = divmod(int(deadline.left_s), 60)
    return f"{minutes}:{seconds:02d} left"
