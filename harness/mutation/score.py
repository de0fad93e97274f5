"""What the mutants came to, all together: counts by operator, kills by oracle, and the survivors one by one."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import ReplayError
from harness.mutation.equivalent_mutants import EquivalentMutant, plain
from harness.mutation.operators import Operator
from harness.mutation.outcome import COUNTED, Fate, MutantOutcome
from harness.wire import from_json, to_json

FORMAT = "kernel-harness-mutation/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResults:
    """The outcomes of one file, all of one setting."""

    setting: str
    """Libraries, devices, seed and budget, in words: outcomes of another setting do not count."""
    format: str = FORMAT
    mutants: int = 0
    """Of what is executed; the outcomes may be of a sample."""
    outcomes: tuple[MutantOutcome, ...] = ()


def load(path: Path, setting: str) -> MutationResults:
    """What is known under this setting; nothing where there is no file, or one of another setting.

    Raises:
        ReplayError: the file holds something else.
    """
    if not path.exists():
        return MutationResults(setting=setting)
    text = path.read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ReplayError(f"{path} is not readable as JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReplayError(f"{path} holds no outcomes of `harness mutate`: name another file")
    ledger = from_json(text, MutationResults)
    return ledger if ledger.setting == setting else MutationResults(setting=setting)


def save(ledger: MutationResults, path: Path) -> None:
    """Write the outcomes, whole or not at all."""
    draft = path.with_name(f".{path.name}.unfinished")
    draft.write_text(to_json(ledger, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def argued(outcomes: Sequence[MutantOutcome], arguments: Sequence[EquivalentMutant]) -> tuple[MutantOutcome, ...]:
    """The outcomes, survivors with what is known of them."""
    return tuple(_argued(outcome, arguments) for outcome in outcomes)


def _argued(outcome: MutantOutcome, arguments: Sequence[EquivalentMutant]) -> MutantOutcome:
    known = next((one for one in arguments if one.fits(outcome.mutant)), None)
    if known is None or outcome.fate is not Fate.SURVIVED:
        return outcome
    return replace(outcome, fate=Fate.EQUIVALENT if known.equivalent else Fate.SURVIVED, reason=known.reason)


def score(outcomes: Sequence[MutantOutcome]) -> float | None:
    """The share of killed mutants among those that are not equivalent; None where there is none."""
    fates = Counter(outcome.fate for outcome in outcomes)
    counted = sum(fates[fate] for fate in COUNTED)
    return fates[Fate.KILLED] / counted if counted else None


def lines(outcomes: Sequence[MutantOutcome], mutants: int) -> Iterator[str]:
    """Markdown: operators by fate, oracles by kills, survivors, and a line that sums it up."""
    yield from _fates(outcomes)
    yield ""
    yield from _kills(outcomes)
    yield ""
    survivors = [outcome for outcome in outcomes if outcome.fate is Fate.SURVIVED]
    for outcome in survivors:
        yield from _survivor(outcome)
    if survivors:
        yield ""
    yield conclusion(outcomes, mutants)


def conclusion(outcomes: Sequence[MutantOutcome], mutants: int) -> str:
    """One line."""
    fates = Counter(outcome.fate for outcome in outcomes)
    counted = sum(fates[fate] for fate in COUNTED)
    share = score(outcomes)
    shown = f"{100 * share:.1f} %" if share is not None else "no score"
    return (
        f"{len(outcomes)} of {mutants} mutants tried: {fates[Fate.KILLED]} of {counted} killed that compute something "
        f"else ({shown}); {fates[Fate.SAME_CODE]} compile to the same code, {fates[Fate.EQUIVALENT]} are equivalent by "
        f"argument, {fates[Fate.STILLBORN]} do not compile"
    )


def _fates(outcomes: Sequence[MutantOutcome]) -> Iterator[str]:
    yield _row(("operator", *Fate, "score"))
    yield _row(("---", *("---:" for _ in Fate), "---:"))
    for operator in Operator:
        mine = [outcome for outcome in outcomes if outcome.mutant.operator is operator]
        if mine:
            yield _row((operator, *_counted(mine)))
    yield _row(("all", *_counted(outcomes)))


def _counted(outcomes: Sequence[MutantOutcome]) -> Iterator[str]:
    fates = Counter(outcome.fate for outcome in outcomes)
    yield from (str(fates[fate] or "") for fate in Fate)
    share = score(outcomes)
    yield "" if share is None else f"{100 * share:.1f} %"


def _kills(outcomes: Sequence[MutantOutcome]) -> Iterator[str]:
    kills = Counter(outcome.oracle for outcome in outcomes if outcome.fate is Fate.KILLED)
    also = Counter(oracle for outcome in outcomes for oracle in outcome.also)
    yield _row(("oracle", "kills", "says so, too"))
    yield _row(("---", "---:", "---:"))
    for oracle in sorted(kills | also, key=lambda oracle: (-kills[oracle], -also[oracle], oracle)):
        yield _row((f"`{oracle}`", str(kills[oracle] or ""), str(also[oracle] or "")))


def _survivor(outcome: MutantOutcome) -> Iterator[str]:
    seen = "the same bits" if outcome.same_bits else "other bits"
    note = outcome.reason or (seen if outcome.reached else "no case executed it")
    yield f"survived: {outcome.mutant}, {outcome.cases} cases of {', '.join(map(_short, outcome.ops))}: {note}"
    yield from (f"    - {line}" for line in plain(outcome.mutant.before).splitlines())
    yield from (f"    + {line}" for line in plain(outcome.mutant.after).splitlines())


def _short(op: str) -> str:
    return op.rpartition(":")[2]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
