"""The grid of op and device by oracle: how many cases passed, failed, abstained and did not run."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.verdict import Outcome
from harness.oracles import registry
from harness.search.campaign_statistics import VerdictCell


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One oracle's verdicts on one op on one device."""

    passed: int
    failed: int
    abstained: int
    not_run: int

    @property
    def style(self) -> str:
        """The CSS class."""
        if self.failed:
            return "bad"
        if self.passed:
            return "good"
        return "unsure" if self.abstained else "empty"

    @property
    def words(self) -> str:
        """The counts in words."""
        counts = (
            (self.failed, "failed"),
            (self.passed, "passed"),
            (self.abstained, "abstained"),
            (self.not_run, "not run"),
        )
        return ", ".join(f"{count} {word}" for count, word in counts if count) or "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleGridRow:
    """One op on one device."""

    op: str
    device: str
    squares: tuple[Square, ...]
    """One for each oracle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleGrid:
    """The whole grid."""

    oracles: tuple[str, ...]
    rows: tuple[OracleGridRow, ...]

    @property
    def judging(self) -> tuple[int, ...]:
        """The indices of the oracles with a verdict on any row."""
        return tuple(index for index, squares in enumerate(self._columns) if any(map(_has_verdict, squares)))

    @property
    def only_abstaining(self) -> tuple[int, ...]:
        """The indices of the oracles that abstained on each row where they were asked."""
        return tuple(
            index
            for index, squares in enumerate(self._columns)
            if any(square.abstained for square in squares) and not any(map(_has_verdict, squares))
        )

    @property
    def not_run(self) -> tuple[str, ...]:
        """The oracles that were asked nowhere."""
        asked = {*self.judging, *self.only_abstaining}
        return tuple(oracle for index, oracle in enumerate(self.oracles) if index not in asked)

    @property
    def _columns(self) -> tuple[tuple[Square, ...], ...]:
        return tuple(tuple(row.squares[index] for row in self.rows) for index in range(len(self.oracles)))


def grid_of(verdicts: Mapping[VerdictCell, int]) -> OracleGrid:
    """Return a row for every op on every device, tried or not."""
    counts: dict[tuple[str, str, str], dict[Outcome, int]] = defaultdict(dict)
    for (op, device, oracle, outcome), count in verdicts.items():
        counts[op, device, oracle][outcome] = count
    usual = [oracle.name for oracle in registry.ALL]
    unusual = sorted({oracle for _, _, oracle in counts} - set(usual))
    oracles = (*usual, *unusual)
    ops, devices = sorted({op for op, _, _ in counts}), sorted({device for _, device, _ in counts})

    def row(op: str, device: str) -> OracleGridRow:
        here = [counts.get((op, device, oracle), {}) for oracle in oracles]
        tried = max(sum(outcomes.values()) for outcomes in here)
        return OracleGridRow(op=op, device=device, squares=tuple(_square(outcomes, tried) for outcomes in here))

    return OracleGrid(oracles=oracles, rows=tuple(row(op, device) for op in ops for device in devices))


def _has_verdict(square: Square) -> bool:
    return bool(square.passed or square.failed)


def _square(counts: Mapping[Outcome, int], tried: int) -> Square:
    return Square(
        passed=counts.get(Outcome.PASS, 0),
        failed=counts.get(Outcome.FAIL, 0),
        abstained=counts.get(Outcome.ABSTAIN, 0),
        not_run=max(0, tried - sum(counts.values())),
    )
