"""What a campaign checked of each op on each device, and what it did not check or not try."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness.catalogue import without_backend
from harness.model.merging import ANY, EACH_ONCE, SUMS, TOTAL, merged_rows
from harness.model.paired_run import SecondRun
from harness.wording import counted

OVERSIZED = "oversized cases"
LONG = "long cases"
RESOURCES = "resources of kernels"
NO_CASE = "no case ran"
SECOND_RUN_WORDS: Mapping[SecondRun, str] = {
    SecondRun.SM_COUNT: "runs at another SM count",
    SecondRun.CONFIG: "runs with another config",
    SecondRun.ORDER: "runs in another order",
    SecondRun.LANE_FILL: "runs with other undefined lanes",
    SecondRun.REPETITION: "repetitions",
    SecondRun.TUNING: "runs that tune",
    SecondRun.KEYS: "surveys of autotuner keys",
    SecondRun.THREADS: "runs with another thread",
    SecondRun.LATER: "later calls",
    SecondRun.GRAPH: "replays of a CUDA graph",
    SecondRun.ROWS: "runs on other rows",
    SecondRun.BUILD: "runs of unoptimised code",
}
"""The kinds of second runs in words, for many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChecks:
    """The cases of one op on one device, and the kinds of checks that only some cases get."""

    op: str
    device: str
    """The slug."""
    passed: int = field(default=0, metadata=TOTAL)
    failed: int = field(default=0, metadata=TOTAL)
    abstained: int = field(default=0, metadata=TOTAL)
    abstain_reasons: Mapping[str, int] = field(default_factory=dict[str, int], metadata=SUMS)
    """Cases by reason, the most frequent first."""
    oversized: int = field(default=0, metadata=TOTAL)
    """Checked cases of more than 2^31 elements; they are among the cases above."""
    may_be_oversized: bool = field(default=False, metadata=ANY)
    """False if no dim of the op may grow that far."""
    long: int = field(default=0, metadata=TOTAL)
    """Checked cases with a dim of more than 32,766; they are among the cases above."""
    may_be_long: bool = field(default=False, metadata=ANY)
    """False if no dim of the op may be so long."""
    impossible: tuple[str, ...] = field(default=(), metadata=EACH_ONCE)
    """The kinds of cases that the op cannot have, each with the reason: `long cases: no dim may exceed 32,766`."""
    compared: int = field(default=0, metadata=TOTAL)
    """Cases whose results were compared with the definition."""
    undefined: int = field(default=0, metadata=TOTAL)
    """Cases whose results were to be compared, and that found no definition."""
    second_runs: Mapping[SecondRun, int] = field(default_factory=dict[SecondRun, int], metadata=SUMS)
    """Completed second runs of checked cases by what differs in them.  A kind that no case allows has no entry."""
    eager: Mapping[str, int] = field(default_factory=dict[str, int], metadata=SUMS)
    """Checked cases by the part of a compiled program that torch's own operators computed."""
    picked: Mapping[str, int] = field(default_factory=dict[str, int], metadata=SUMS)
    """Checked cases by the config that host code picked in them: all configs that it may pick on the device."""
    builds: int = field(default=0, metadata=TOTAL)
    """Distinct kernels that were launched."""
    compiled_builds: int = field(default=0, metadata=TOTAL)
    """Those whose resources are known."""

    @property
    def cases(self) -> int:
        return self.passed + self.failed + self.abstained

    @property
    def checked(self) -> int:
        return self.passed + self.failed

    @property
    def name(self) -> str:
        """The op without its file."""
        return self.op.rpartition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class UncheckedOp:
    """An op of which no case could be checked, or no result."""

    op: str
    device: str
    """The slug; empty if no case could be checked on any device, or no result."""
    reason: str

    def __str__(self) -> str:
        name = self.op.rpartition(":")[2]
        return f"{name}{f' on {self.device}' if self.device else ''} ({self.reason})"


def unchecked(rows: Iterable[OpChecks]) -> tuple[UncheckedOp, ...]:
    """Return the ops that were checked on no device, those without a definition, and then those of single devices."""
    by_op: dict[str, list[OpChecks]] = {}
    for row in rows:
        by_op.setdefault(row.op, []).append(row)
    nowhere = [op for op, on in by_op.items() if not any(row.checked for row in on)]
    return (
        *(UncheckedOp(op=op, device="", reason=_reason(by_op[op])) for op in nowhere),
        *(
            UncheckedOp(op=op, device="", reason=_lacks_definition(op))
            for op, on in by_op.items()
            if op not in nowhere and any(row.undefined for row in on) and not any(row.compared for row in on)
        ),
        *(
            UncheckedOp(op=op, device=row.device, reason=_reason([row]))
            for op, on in by_op.items()
            if op not in nowhere
            for row in on
            if not row.checked
        ),
    )


def untried(rows: Iterable[OpChecks]) -> Mapping[str, tuple[str, ...]]:
    """Return the ops that got none of a kind of check that is possible for them, by kind.

    Ops of which no case could be checked are left out: `unchecked` names them.
    """
    lacking = without_backend()
    possible = (replace(row, builds=0) if row.device in lacking else row for row in rows)
    return _ops_by_kind((kind, row) for row in by_op(possible) if row.checked for kind in _untried_kinds(row))


def impossible(rows: Iterable[OpChecks]) -> Mapping[str, tuple[str, ...]]:
    """Return the ops that can have none of a kind of cases, by kind and reason."""
    return _ops_by_kind((kind, row) for row in by_op(rows) for kind in row.impossible)


def _ops_by_kind(pairs: Iterable[tuple[str, OpChecks]]) -> Mapping[str, tuple[str, ...]]:
    ops: dict[str, tuple[str, ...]] = {}
    for kind, row in pairs:
        ops[kind] = (*ops.get(kind, ()), row.op)
    return ops


def by_op(rows: Iterable[OpChecks]) -> tuple[OpChecks, ...]:
    """Return the sums over all devices, with an empty device."""
    return merged_rows(replace(row, device="") for row in rows)


def _untried_kinds(row: OpChecks) -> Iterator[str]:
    if row.may_be_oversized and not row.oversized:
        yield OVERSIZED
    if row.may_be_long and not row.long:
        yield LONG
    yield from (SECOND_RUN_WORDS[kind] for kind, count in row.second_runs.items() if not count)
    if row.builds and not row.compiled_builds:
        yield RESOURCES


def _lacks_definition(op: str) -> str:
    return f"its results, for it has no definition: write the function under @{op.rpartition(':')[2]}.reference"


def _reason(rows: Iterable[OpChecks]) -> str:
    """Return the most frequent reason, with its count."""
    reasons, cases = Counter[str](), 0
    for row in rows:
        reasons.update(row.abstain_reasons)
        cases += row.cases
    if not cases:
        return NO_CASE
    if not reasons:
        return f"{counted(cases, 'case')} abstained"
    reason, count = reasons.most_common(1)[0]
    return f"{count} of {counted(cases, 'case')}: {reason}"
