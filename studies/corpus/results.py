"""The results of corpus searches: a Markdown table, and a JSON file from which the next run resumes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.documents import files
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.reports.finding_text import describe
from harness.wording import counted
from studies.corpus.bugs import HistoricalBug
from studies.corpus.verify import BugRecord, FoundBug, SearchBudget, SearchResult

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

    kind: Kind = Kind.CORPUS
    schema_version: int = SCHEMA_VERSION
    records: tuple[BugRecord, ...] = ()

    def of(self, bug: HistoricalBug, budget: SearchBudget) -> BugRecord | None:
        """Return the record of this bug under this budget, if there is one."""
        return next((record for record in self.records if record.bug == bug and record.budget == budget), None)

    def plus(self, record: BugRecord) -> "CorpusResults":
        """Return the results with this record; it replaces an older one of the same bug."""
        kept = tuple(earlier for earlier in self.records if earlier.bug.id != record.bug.id)
        return CorpusResults(records=(*kept, record))


def load(path: Path) -> CorpusResults:
    """Read the records of a file; a file that does not exist has none.

    Raises:
        ReplayError: the file holds something else.
    """
    return files.read(path, CorpusResults) if path.exists() else CorpusResults()


def lines(records: Sequence[BugRecord]) -> Iterator[str]:
    """Yield the table and a conclusion."""
    yield _row(COLUMNS)
    yield _row(["---"] * len(COLUMNS))
    for record in records:
        yield _row(_cells(record))
    yield ""
    yield conclusion(records)


def conclusion(records: Sequence[BugRecord]) -> str:
    """Return the conclusion, one line."""
    confirmed = sum(record.is_confirmed for record in records)
    counts = {
        "found that no release has fixed": sum(record.is_open for record in records),
        "not searched for": sum(record.bad is None for record in records),
    }
    later = "".join(f"; {count} {what}" for what, count in counts.items() if count)
    return (
        f"{confirmed} of {len(records)} bugs found in the last bad release and not seen in the first fixed one{later}"
    )


def _cells(record: BugRecord) -> Iterator[str]:
    bug, bad = record.bug, record.bad
    yield f"[{bug.id}]({bug.link.split()[0]}): {bug.what}"
    yield ", ".join(bug.ops)
    yield f"{bug.distribution} {bug.last_bad}, {bug.first_fixed or 'none'}"
    if bad is None:
        yield from (f"not searched for: {bug.not_searched}", "", "", "")
        return
    if bad.found is None:
        yield from (f"**not found**: {_instead(bad)}", _spent(bad.cases, bad.seconds), "", "")
        return
    yield from _found(bad.found)
    yield _fixed_cell(record.fixed) if record.fixed is not None else ""


def _found(bug: FoundBug) -> Iterator[str]:
    source = f" ({bug.source_line})" if bug.source_line and bug.source_line not in bug.signature else ""
    yield f"`{bug.signature}`{source}"
    yield _spent(bug.cases, bug.seconds)
    yield describe(bug.smallest)


def _fixed_cell(fixed: SearchResult) -> str:
    if fixed.found is not None:
        return f"**still seen**: `{fixed.found.signature}` after {_spent(fixed.found.cases, fixed.found.seconds)}"
    if not fixed.checked:
        return f"**not checked**: {_instead(fixed)}"
    seen = f"; other findings: {_listed(fixed.other_signatures)}" if fixed.other_signatures else ""
    cut = ", when time was over" if fixed.out_of_time else ""
    return f"not seen in {fixed.checked} checked cases of {fixed.cases}{cut}{seen}"


def _instead(searched: SearchResult) -> str:
    """Describe what was seen instead of the bug."""
    if searched.obstacle:
        return next(iter(searched.obstacle.splitlines()), "")
    if not searched.checked:
        return "no case could be checked"
    cut = " until time was over" if searched.out_of_time else ""
    return (
        f"seen instead{cut}: {_listed(searched.other_signatures)}"
        if searched.other_signatures
        else f"nothing was seen{cut}"
    )


def _spent(cases: int, seconds: float) -> str:
    return f"{counted(cases, 'case')}, {seconds:.0f} s"


def _listed(signatures: Sequence[str]) -> str:
    return ", ".join(f"`{signature}`" for signature in signatures)


def _row(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
