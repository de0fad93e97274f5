"""The score of a set of mutants: counts by operator, kills by oracle, and a list of the survivors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.documents import files
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.wording import counted
from studies.mutation.equivalent_mutants import EquivalentMutant, stripped
from studies.mutation.operators import Operator
from studies.mutation.outcome import COUNTED, Fate, MutantOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResults:
    """The outcomes of one file, all of one setting."""

    kind: Kind = Kind.MUTATION
    schema_version: int = SCHEMA_VERSION
    setting: str
    """Libraries, devices, seed and budget, in words: outcomes of another setting do not count."""
    mutants: int = 0
    """Of what is executed; the outcomes may be of a sample."""
    outcomes: tuple[MutantOutcome, ...] = ()


def load(path: Path, setting: str) -> MutationResults:
    """Read the outcomes under this setting; there are none in a file of another setting, or where there is no file.

    Raises:
        ReplayError: the file holds something else.
    """
    known = files.read(path, MutationResults) if path.exists() else None
    return known if known is not None and known.setting == setting else MutationResults(setting=setting)


def with_explanations(
    outcomes: Sequence[MutantOutcome], explanations: Sequence[EquivalentMutant]
) -> tuple[MutantOutcome, ...]:
    """Return the outcomes, with the explanations of survivors filled in."""
    return tuple(_with_explanation(outcome, explanations) for outcome in outcomes)


def _with_explanation(outcome: MutantOutcome, explanations: Sequence[EquivalentMutant]) -> MutantOutcome:
    known = next((explanation for explanation in explanations if explanation.matches(outcome.mutant)), None)
    if known is None or outcome.fate is not Fate.SURVIVED:
        return outcome
    return replace(outcome, fate=Fate.EQUIVALENT if known.equivalent else Fate.SURVIVED, reason=known.reason)


def score(outcomes: Sequence[MutantOutcome]) -> float | None:
    """Return the share of killed mutants among the killed and the surviving; None if there is neither."""
    fates = Counter(outcome.fate for outcome in outcomes)
    counted = sum(fates[fate] for fate in COUNTED)
    return fates[Fate.KILLED] / counted if counted else None


def lines(outcomes: Sequence[MutantOutcome], mutants: int) -> Iterator[str]:
    """Yield Markdown: operators by fate, oracles by kills, the survivors, and a conclusion."""
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
    """Return the conclusion, one line."""
    fates = Counter(outcome.fate for outcome in outcomes)
    counted = sum(fates[fate] for fate in COUNTED)
    share = score(outcomes)
    shown = f"{100 * share:.1f} %" if share is not None else "no score"
    return (
        f"{len(outcomes)} of {mutants} mutants tried: {fates[Fate.KILLED]} of {counted} killed that compute something "
        f"else ({shown}); {fates[Fate.SAME_CODE]} compile to the same code, {fates[Fate.EQUIVALENT]} are equivalent by "
        f"argument, {fates[Fate.STILLBORN]} do not compile"
    )


def kill_rate(outcomes: Sequence[MutantOutcome], cpu_s: float) -> str:
    """Return how many of these mutants were killed per CPU minute, one line; empty if there is none."""
    if not outcomes or cpu_s <= 0:
        return ""
    killed, minutes = sum(outcome.fate is Fate.KILLED for outcome in outcomes), cpu_s / 60
    return (
        f"{killed / minutes:.1f} killed per CPU minute: {killed} of the {counted(len(outcomes), 'mutant')} that this "
        f"command tried, in {minutes:.1f} CPU minutes"
    )


def _fates(outcomes: Sequence[MutantOutcome]) -> Iterator[str]:
    yield _row(("operator", *Fate, "score"))
    yield _row(("---", *("---:" for _ in Fate), "---:"))
    for operator in Operator:
        mine = [outcome for outcome in outcomes if outcome.mutant.operator is operator]
        if mine:
            yield _row((operator, *_fate_cells(mine)))
    yield _row(("all", *_fate_cells(outcomes)))


def _fate_cells(outcomes: Sequence[MutantOutcome]) -> Iterator[str]:
    fates = Counter(outcome.fate for outcome in outcomes)
    yield from (str(fates[fate] or "") for fate in Fate)
    share = score(outcomes)
    yield "" if share is None else f"{100 * share:.1f} %"


def _kills(outcomes: Sequence[MutantOutcome]) -> Iterator[str]:
    kills = Counter(outcome.oracle for outcome in outcomes if outcome.fate is Fate.KILLED)
    also = Counter(oracle for outcome in outcomes for oracle in outcome.other_oracles)
    yield _row(("oracle", "kills", "says so, too"))
    yield _row(("---", "---:", "---:"))
    for oracle in sorted(kills | also, key=lambda oracle: (-kills[oracle], -also[oracle], oracle)):
        yield _row((f"`{oracle}`", str(kills[oracle] or ""), str(also[oracle] or "")))


def _survivor(outcome: MutantOutcome) -> Iterator[str]:
    seen = "the same bits" if outcome.same_bits else "other bits"
    note = outcome.reason or (seen if outcome.reached else "no case executed it")
    cases = f"{counted(outcome.cases, 'case')} of {', '.join(map(_short, outcome.ops))}"
    yield f"survived: {outcome.mutant}, {cases}: {note}"
    yield from (f"    - {line}" for line in stripped(outcome.mutant.before).splitlines())
    yield from (f"    + {line}" for line in stripped(outcome.mutant.after).splitlines())


def _short(op: str) -> str:
    return op.rpartition(":")[2]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
