"""What came of the hunts: a Markdown table for people, JSON for the next time."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.corpus.bugs import HistoricalBug
from harness.corpus.verify import Budget, BugRecord, Found, SearchResult
from harness.errors import ReplayError
from harness.reports.finding_text import describe
from harness.wire import from_json, to_json

FORMAT = "kernel-harness-corpus/1"
COLUMNS = (
    "bug",
    "op",
    "last bad, first fixed",
    "found as",
    "after",
    "smallest case",
    "first fixed release",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusResults:
    """The records of one file."""

    format: str = FORMAT
    records: tuple[BugRecord, ...] = ()

    def of(self, bug: HistoricalBug, budget: Budget) -> BugRecord | None:
        """What is known of this very bug under this very budget."""
        return next((one for one in self.records if one.bug == bug and one.budget == budget), None)

    def plus(self, record: BugRecord) -> "CorpusResults":
        """With one record more, in the place of an older one of the same bug."""
        others = tuple(one for one in self.records if one.bug.id != record.bug.id)
        return CorpusResults(records=(*others, record))


def load(path: Path) -> CorpusResults:
    """The records of a file; none where there is no file.

    Raises:
        ReplayError: the file holds something else.
    """
    if not path.exists():
        return CorpusResults()
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError) as error:
        raise ReplayError(f"{path} is not readable as JSON: {error}") from None
    match document:
        case {"format": format_} if format_ == FORMAT:
            return from_json(text, CorpusResults)
        case _:
            raise ReplayError(f"{path} holds no records of `harness corpus`: name another file")


def save(ledger: CorpusResults, path: Path) -> None:
    """Write the records, whole or not at all."""
    draft = path.with_name(f".{path.name}.unfinished")
    draft.write_text(to_json(ledger, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)


def lines(records: Sequence[BugRecord]) -> Iterator[str]:
    """The table, and a line that sums it up."""
    yield _row(COLUMNS)
    yield _row(["---"] * len(COLUMNS))
    for record in records:
        yield _row(_cells(record))
    yield ""
    yield conclusion(records)


def conclusion(records: Sequence[BugRecord]) -> str:
    """One line."""
    kept = sum(record.is_kept for record in records)
    skipped = sum(record.bad is None for record in records)
    later = f"; {skipped} not searched for" if skipped else ""
    return f"{kept} of {len(records)} bugs found in the last bad release and not seen in the first fixed one{later}"


def _cells(record: BugRecord) -> Iterator[str]:
    bug, bad = record.bug, record.bad
    yield f"[{bug.id}]({bug.link.split()[0]}): {bug.what}"
    yield ", ".join(bug.ops)
    yield f"{bug.distribution} {bug.last_bad}, {bug.first_fixed}"
    if bad is None:
        yield from (f"not searched for: {bug.not_searched}", "", "", "")
        return
    if bad.found is None:
        yield from (f"**not found**: {_instead(bad)}", _spent(bad.cases, bad.seconds), "", "")
        return
    yield from _found(bad.found)
    yield _silence(record.fixed) if record.fixed is not None else ""


def _found(found: Found) -> Iterator[str]:
    where = f" ({found.where})" if found.where and found.where not in found.signature else ""
    yield f"`{found.signature}`{where}"
    yield _spent(found.cases, found.seconds)
    yield describe(found.smallest)


def _silence(fixed: SearchResult) -> str:
    if fixed.found is not None:
        return f"**still seen**: `{fixed.found.signature}` after {_spent(fixed.found.cases, fixed.found.seconds)}"
    if not fixed.judged:
        return f"**not judged**: {_instead(fixed)}"
    seen = f"; other findings: {_listed(fixed.others)}" if fixed.others else ""
    cut = ", when time was over" if fixed.out_of_time else ""
    return f"silent in {fixed.judged} cases that were judged, of {fixed.cases}{cut}{seen}"


def _instead(searched: SearchResult) -> str:
    """What was seen where the bug was not."""
    if searched.obstacle:
        return next(iter(searched.obstacle.splitlines()), "")
    if not searched.judged:
        return "no case could be judged"
    cut = " until time was over" if searched.out_of_time else ""
    return f"seen instead{cut}: {_listed(searched.others)}" if searched.others else f"nothing was seen{cut}"


def _spent(cases: int, seconds: float) -> str:
    return f"{cases:,} case{'' if cases == 1 else 's'}, {seconds:.0f} s"


def _listed(signatures: Sequence[str]) -> str:
    return ", ".join(f"`{signature}`" for signature in signatures)


def _row(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
