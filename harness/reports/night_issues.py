"""A bug of the nights as the text of an issue, which stays the same as long as nothing but time has passed.

So a script updates an issue only when there is something to read: another release or device, another smallest case, or
the bug is gone.  Counts and the latest night are on the morning's page.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.documents import files
from harness.errors import store_error
from harness.model.finding import Finding, Symptom
from harness.night.bug_history import BugHistory
from harness.reports.contents import ReportedBug
from harness.reports.issue_text import issue_body, issue_title
from harness.reports.markdown import escaped
from harness.reports.morning import MorningBug, MorningContents

ISSUES = "issues"
"""The folder of the texts, below that of the page."""
STEP = 10
"""Per cent to which a share of nights is rounded."""


def issue_with_nights(bug: ReportedBug, history: BugHistory) -> str:
    """Return title and body of an issue, with a section on the nights that saw the bug."""
    steady = replace(bug, finding=_steady(bug.finding))
    nights = ("### Nights", "\n".join(f"- {escaped(line)}" for line in night_facts(history)))
    return f"# {escaped(issue_title(steady))}\n\n{issue_body(steady, nights)}"


def write_issues(contents: MorningContents, folder: Path) -> tuple[Path, ...]:
    """Write a file for each confirmed bug, also for those that are gone, and return the files that have changed.

    Raises:
        StoreError: they cannot be written.
    """
    place = folder / ISSUES
    try:
        place.mkdir(parents=True, exist_ok=True)
        return tuple(
            path
            for bug in contents.bugs
            if bug.reported is not None and has_issue(bug)
            if _update(bug.reported, bug.history, path := place / f"{bug.id}.md")
        )
    except OSError as error:
        raise store_error(error, place) from None


def has_issue(bug: MorningBug) -> bool:
    """Return True if the bug is worth an issue: its smallest case is known, and has shown it alone."""
    return bug.reported is not None and bug.is_confirmed


def night_facts(history: BugHistory) -> Iterator[str]:
    """Yield what stays true from night to night."""
    yield f"first seen in the night {history.first}" if history.first else "the nights that saw it are lost"
    if not history.is_open:
        release = f" with {history.gone_with}" if history.gone_with else ""
        yield f"last seen in the night {history.last}"
        yield f"gone since the night {history.gone_since}{release}: its smallest case ran and did not show it"
    elif history.nights:
        yield f"still there; seen in {_share(history)} that looked for it"
    if history.releases:
        yield f"releases that showed it: {', '.join(history.releases)}"
    if history.devices:
        yield f"devices: {', '.join(history.devices)}"
    if history.searches:
        yield f"searches: {', '.join(history.searches)}"


def _share(history: BugHistory) -> str:
    seen, looked = len(history.nights), history.nights_looked
    if seen == looked:
        return "each night"
    per_cent = min(max(STEP * round(100 / STEP * seen / looked), STEP), 100 - STEP)
    return f"about {per_cent} % of the nights"


def _steady(finding: Finding) -> Finding:
    """Return the finding with its symptoms in one order, without what each search sees of them anew."""
    symptoms = (
        Symptom(signature=symptom.signature, message="", source=symptom.source, sightings=1)
        for symptom in finding.symptoms
    )
    return replace(finding, symptoms=tuple(sorted(symptoms, key=lambda symptom: str(symptom.signature))))


def _update(bug: ReportedBug, history: BugHistory, path: Path) -> bool:
    """Write the text unless the file has it; return True if it was written."""
    text = issue_with_nights(bug, history)
    with suppress(FileNotFoundError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == text:
            return False
    files.write_text(text, path)
    return True
