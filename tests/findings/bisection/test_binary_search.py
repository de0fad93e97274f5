"""The border between bad and good members is found wherever it lies, also between skipped members."""

from dataclasses import replace
from math import ceil, log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.findings.bisection.binary_search import Border, Shown, find_border
from harness.findings.bisection.histories import Member
from harness.findings.bisection.member_check import MemberCheck, check_of, combine
from harness.findings.bisection.stretches import Bisected, Ending, bisect, stretches
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import Replayed
from harness.model.case import Case
from harness.model.finding import Finding
from harness.model.run import Raised, Run
from harness.model.verdict import Severity, Signature
from harness.reports.bisection_table import sentence, table
from harness.search.judge import Judge
from tests.search.fakes import KERNEL, OP, SIMPLEST, facts, never, unsupported

BAD, GOOD, SKIP = Shown.BAD, Shown.GOOD, Shown.SKIP


def border_of(history: list[Shown]) -> tuple[Border, list[int]]:
    """Return the border, and the positions in the order of the probes."""
    probed: list[int] = []

    def probe(position: int) -> Shown:
        probed.append(position)
        return history[position]

    return find_border(range(len(history)), probe), probed


@st.composite
def histories(draw: st.DrawFn) -> list[Shown]:
    """Draw bad members, then good ones; any may be skipped."""
    bad, good = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    skipped = draw(st.sets(st.integers(0, max(bad + good - 1, 0))))
    return [SKIP if at in skipped else shown for at, shown in enumerate([BAD] * bad + [GOOD] * good)]


@given(histories())
@example([BAD, SKIP, SKIP, GOOD])
@example([BAD, SKIP, GOOD, SKIP])
@example([BAD, SKIP])
@example([])
def test_the_border_is_found_with_the_skipped_members_around_it(history: list[Shown]) -> None:
    border, probed = border_of(history)
    assert len(probed) == len(set(probed))
    if not history or history[0] is not BAD:
        assert border == Border(bad=None, good=None)
        return
    last_bad = max(at for at, shown in enumerate(history) if shown is BAD)
    first_good = min((at for at, shown in enumerate(history) if shown is GOOD), default=None)
    end = len(history) if first_good is None else first_good
    assert border == Border(bad=last_bad, good=first_good, skipped_between=tuple(range(last_bad + 1, end)))


@given(st.integers(1, 500), st.integers(0, 500))
def test_without_skips_the_probes_are_logarithmic(bad: int, good: int) -> None:
    _, probed = border_of([BAD] * bad + [GOOD] * good)
    assert len(probed) <= 2 + ceil(log2(bad + good))


def test_a_long_skipped_stretch_is_left_quickly() -> None:
    history = [BAD] * 100 + [SKIP] * 800 + [BAD] * 50 + [GOOD] * 50
    border, probed = border_of(history)
    assert (border, len(probed) < 40) == (Border(bad=949, good=950), True)


@given(st.lists(st.sampled_from(Shown), min_size=1, max_size=30))
def test_a_border_is_real_in_any_history(history: list[Shown]) -> None:
    border, _ = border_of(history)
    if border.bad is not None and border.good is not None:
        between = range(border.bad + 1, border.good)
        assert (history[border.bad], history[border.good], {history[at] for at in between} - {SKIP}) == (
            BAD,
            GOOD,
            set(),
        )
        assert border.skipped_between == tuple(between)


# --- which stretches of a history are searched ------------------------------------------------------------------------


class Letters:
    """A history of letters that show the bug from `bad` until before `good`."""

    subject = "letters"
    ALL = tuple(Member(name=letter) for letter in "abcdefgh")

    def __init__(self, bad: str, good: str) -> None:
        self._bad, self._good = bad, good

    def find(self, name: str, option: str) -> Member:
        del option
        return Member(name=name)

    def is_older(self, first: Member, second: Member) -> bool:
        return first.name < second.name

    def oldest(self) -> Member:
        return self.ALL[0]

    def newest(self) -> Member:
        return self.ALL[-1]

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        return tuple(one for one in self.ALL if older.name <= one.name <= newer.name)

    def check(self, member: Member) -> MemberCheck:
        if member.name == "e":
            return MemberCheck(shown=SKIP, explanation="cannot be installed")
        return MemberCheck(shown=BAD if self._bad <= member.name < self._good else GOOD, explanation="ok")


def bisected(history: Letters, bad: str, good: str | None = None, fixed: str | None = None) -> Bisected:
    ends = [None if name is None else history.find(name, "") for name in (good, fixed)]
    return bisect(history, stretches(history, history.find(bad, ""), *ends), lambda *_: None)


@pytest.mark.parametrize(
    ("history", "ends", "says", "endings"),
    [
        (Letters("c", "g"), ("d",), "It came with letters c (b is good).", [Ending.FOUND]),
        (Letters("c", "g"), ("d", "b"), "It came with letters c (b is good).", [Ending.FOUND]),
        (Letters("c", "g"), ("d", "h"), "It is fixed in letters g (f is bad).", [Ending.FOUND]),
        (
            Letters("c", "g"),
            ("f", "a", "h"),
            "It came with letters c (b is good) and is fixed in letters g (f is bad).",
            [Ending.FOUND, Ending.FOUND],
        ),
        (
            Letters("f", "z"),
            ("g", "b", "h"),
            "It came between letters d, which is good, and f, which is bad, with e skipped and is still in letters h.",
            [Ending.FOUND, Ending.NO_BORDER],
        ),
        (Letters("a", "z"), ("g", "a"), "It is already in letters a.", [Ending.NO_BORDER]),
        (
            Letters("a", "z"),
            ("f", "e"),
            "It is already in letters f (e could not be checked).",
            [Ending.NOT_CHECKED],
        ),
        (Letters("c", "g"), ("h", "a"), "letters h does not show It: there is nothing to bisect.", [Ending.NO_BORDER]),
        (Letters("c", "g"), ("e", "a"), "letters e should show It, and could not be checked.", [Ending.NOT_CHECKED]),
    ],
)
def test_the_given_members_decide_which_borders_are_searched(
    history: Letters, ends: tuple[str, ...], says: str, endings: list[Ending]
) -> None:
    found = bisected(history, *ends)
    assert (sentence(found, "It"), [one.ending for one in found.searched]) == (says, endings)


def test_the_table_has_a_row_for_each_checked_member() -> None:
    found = bisected(Letters("c", "g"), "f", "a", "h")
    assert list(table(found)) == [
        "letters  showed",
        "a        good    ok",
        "b        good    ok",
        "c        bad     ok",
        "f        bad     ok",
        "g        good    ok",
        "h        good    ok",
    ]
    assert found.members == 8


# --- what one run shows ----------------------------------------------------------------------------------------------

OVERLAP = Signature(
    oracle="write-overlap", severity=Severity.ERROR, op="", kernel=KERNEL, place="layernorm.py:7"
)  # another line and another severity than in the runs below


def replayed(run: Run, signature: Signature | None = OVERLAP) -> Replayed:
    judge = Judge().only("completes", "bounds", "write-overlap")
    return Replayed(
        recorded=Recorded(case=run.case, signature=signature),
        findings=tuple[Finding, ...](),
        examined=judge.judge(OP, run, {}),
    )


def always(case: Case) -> bool:
    del case
    return True


def raising(case: Case) -> Run:
    ending = Raised(
        kind="TypeError", message="layer_norm() got an unexpected keyword", source=None, phase="forward", traceback=""
    )
    return Run(case=case, engine="virtual", ending=ending)


def with_kernel(run: Run, name: str) -> Run:
    """Return the run with another kernel name."""
    (launch,) = run.launches
    memory = tuple(replace(event, site=replace(event.site, kernel=name)) for event in run.memory)
    return replace(run, launches=(replace(launch, kernel=name),), memory=memory)


@pytest.mark.parametrize(
    ("run", "signature", "check"),
    [
        (
            facts(SIMPLEST, always),
            OVERLAP,
            MemberCheck(shown=BAD, explanation=f"write-overlap: {KERNEL} layernorm.py:431"),
        ),
        (facts(SIMPLEST, never), OVERLAP, MemberCheck(shown=GOOD, explanation="does not show it")),
        (
            facts(SIMPLEST, always),
            None,
            MemberCheck(shown=BAD, explanation=f"write-overlap: {KERNEL} layernorm.py:431"),
        ),
        (facts(SIMPLEST, never), None, MemberCheck(shown=GOOD, explanation="does not show it")),
        (
            facts(SIMPLEST, always),
            replace(OVERLAP, oracle="bounds"),
            MemberCheck(shown=GOOD, explanation=f"does not show it; fails write-overlap: {KERNEL} layernorm.py:431"),
        ),
        (
            facts(SIMPLEST, always),
            replace(OVERLAP, place="fused.py:7"),
            MemberCheck(shown=GOOD, explanation=f"does not show it; fails write-overlap: {KERNEL} layernorm.py:431"),
        ),
        (
            with_kernel(facts(SIMPLEST, always), "renamed"),
            OVERLAP,
            MemberCheck(shown=SKIP, explanation="instead: write-overlap: renamed layernorm.py:431"),
        ),
        (
            raising(SIMPLEST),
            OVERLAP,
            MemberCheck(
                shown=SKIP, explanation="TypeError was raised in phase forward: layer_norm() got an unexpected keyword"
            ),
        ),
        (
            raising(SIMPLEST),
            replace(OVERLAP, oracle="completes", kernel="", place="RuntimeError: no"),
            MemberCheck(
                shown=SKIP, explanation="TypeError was raised in phase forward: layer_norm() got an unexpected keyword"
            ),
        ),
    ],
)
def test_a_run_is_evidence_only_if_the_oracle_checked_it(
    run: Run, signature: Signature | None, check: MemberCheck
) -> None:
    assert check_of(replayed(run, signature)) == check


def test_an_unsupported_case_is_skipped_with_its_reason() -> None:
    check = check_of(replayed(unsupported(SIMPLEST)))
    assert (check.shown, check.explanation.startswith("the engine cannot execute tt.histogram")) == (SKIP, True)


@pytest.mark.parametrize(
    ("shown", "sum_"),
    [
        ((GOOD,), MemberCheck(shown=GOOD, explanation="good")),
        ((GOOD, GOOD), MemberCheck(shown=GOOD, explanation="good (in 2 runs)")),
        ((GOOD, SKIP, BAD), MemberCheck(shown=BAD, explanation="bad (in run 3)")),
        ((GOOD, SKIP, GOOD), MemberCheck(shown=SKIP, explanation="skip")),
    ],
)
def test_one_bad_run_is_enough_and_one_skipped_run_prevents_good(shown: tuple[Shown, ...], sum_: MemberCheck) -> None:
    assert combine([MemberCheck(shown=one, explanation=str(one)) for one in shown]) == sum_
