"""Results of a sighting study: JSON lines from which the next run resumes, a table, and a comparison of files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from harness.errors import ReplayError
from harness.wire import from_json, to_json
from studies.sightings.search import Attempt


def load(path: Path) -> tuple[Attempt, ...]:
    """Read the attempts of a file; a file that does not exist has none.

    A last line without its end is that of a study that was killed, and does not count.

    Raises:
        ReplayError: the file holds something else.
    """
    if not path.exists():
        return ()
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    attempts: list[Attempt] = []
    for number, line in enumerate(whole, 1):
        try:
            attempts.append(from_json(line, Attempt))
        except ReplayError as error:
            raise ReplayError(f"{path}:{number}: {error}") from None
    return tuple(attempts)


def append(attempt: Attempt, path: Path) -> None:
    """Add an attempt to a file, after dropping a last line that is not whole."""
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(f"{to_json(attempt)}\n".encode())


def lines(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield a table of the bugs, and a conclusion."""
    yield "| bug | median s | worst s | median case | sighted |"
    yield "| -- | --: | --: | --: | --: |"
    for bug in dict.fromkeys(attempt.bug for attempt in attempts):
        mine = [attempt for attempt in attempts if attempt.bug == bug]
        yield f"| {bug} | {' | '.join(_figures(mine))} |"
    yield f"| all | {' | '.join(_figures(attempts))} |"
    missed = [attempt for attempt in attempts if attempt.seconds is None]
    yield ""
    yield from (f"not sighted: {attempt.bug}, seed {attempt.seed}: {attempt.ended}" for attempt in missed)
    yield f"{len(missed)} of {len(attempts)} searches did not sight their bug"


def comparison(before: Sequence[Attempt], after: Sequence[Attempt]) -> Iterator[str]:
    """Yield the ratios of medians, after to before, over the searches that both files have under the same limits.

    A ratio is of the searches that sighted their bug in both files.
    """
    earlier = {(attempt.bug, attempt.seed, attempt.limits): attempt for attempt in before}
    pairs = [
        (earlier[key], attempt) for attempt in after if (key := (attempt.bug, attempt.seed, attempt.limits)) in earlier
    ]
    yield "| bug | before, s | after, s | ratio |"
    yield "| -- | --: | --: | --: |"
    for bug in dict.fromkeys(later.bug for _, later in pairs):
        yield _ratio(bug, [pair for pair in pairs if pair[1].bug == bug])
    yield _ratio("all", pairs)
    yield ""
    lost = sum(former.seconds is not None and later.seconds is None for former, later in pairs)
    won = sum(former.seconds is None and later.seconds is not None for former, later in pairs)
    yield f"{len(pairs)} searches in both files; sighted before alone: {lost}; sighted after alone: {won}"


def _ratio(name: str, pairs: Sequence[tuple[Attempt, Attempt]]) -> str:
    both = [
        (former.seconds, later.seconds)
        for former, later in pairs
        if former.seconds is not None and later.seconds is not None
    ]
    if not both:
        return f"| {name} | | | |"
    before, after = (median(seconds) for seconds in zip(*both, strict=True))
    return f"| {name} | {before:.1f} | {after:.1f} | {after / before:.2f} |"


def _figures(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield the cells of a row.  Medians and the worst are of the searches that sighted their bug."""
    seconds = [attempt.seconds for attempt in attempts if attempt.seconds is not None]
    cases = [attempt.case_number for attempt in attempts if attempt.case_number is not None]
    yield f"{median(seconds):.1f}" if seconds else ""
    yield f"{max(seconds):.1f}" if seconds else ""
    yield f"{median(cases):g}" if cases else ""
    yield f"{len(seconds)} of {len(attempts)}"
