"""The border between bad and good is found wherever it lies and whatever cannot be judged, and is never made up."""

from dataclasses import replace
from math import ceil, log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.bisection.binary_search import Border, Shown, find_border
from harness.bisection.histories import Member
from harness.bisection.member_check import MemberCheck, look_of, sum_of
from harness.bisection.stretches import Bisected, Ending, bisect, stretches
from harness.findings.replay import Recorded
from harness.findings.rerun import Replayed
from harness.model.case import Case
from harness.model.finding import Finding
from harness.model.run import Raised, Run
from harness.model.verdict import Severity, Signature
from harness.reports.bisection_table import sentence, table
from harness.search.judge import Judge
from tests.search.fakes import KERNEL, OP, PLAINEST, facts, never, unsupported

pytestmark = pytest.mark.once

BAD, GOOD, SKIP = Shown.BAD, Shown.GOOD, Shown.SKIP


def walked(history: list[Shown]) -> tuple[Border, list[int]]:
    """The border, and the positions in the order in which they were asked about."""
    asked: list[int] = []

    def probe(position: int) -> Shown:
        asked.append(position)
        return history[position]

    return find_border(range(len(history)), probe), asked


@st.composite
def histories(draw: st.DrawFn) -> list[Shown]:
    """Bad members, then good ones, of which any may be skipped."""
    bad, good = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    skipped = draw(st.sets(st.integers(0, max(bad + good - 1, 0))))
    return [SKIP if at in skipped else shown for at, shown in enumerate([BAD] * bad + [GOOD] * good)]


@given(histories())
@example([BAD, SKIP, SKIP, GOOD])
@example([BAD, SKIP, GOOD, SKIP])
@example([BAD, SKIP])
@example([])
def test_the_border_is_found_and_what_hides_it_is_told(history: list[Shown]) -> None:
    border, asked = walked(history)
    assert len(asked) == len(set(asked))
    if not history or history[0] is not BAD:
        assert border == Border(bad=None, good=None)
        return
    last_bad = max(at for at, shown in enumerate(history) if shown is BAD)
    first_good = min((at for at, shown in enumerate(history) if shown is GOOD), default=None)
    end = len(history) if first_good is None else first_good
    assert border == Border(bad=last_bad, good=first_good, hidden=tuple(range(last_bad + 1, end)))


@given(st.integers(1, 500), st.integers(0, 500))
def test_without_skips_it_takes_the_logarithm(bad: int, good: int) -> None:
    _, asked = walked([BAD] * bad + [GOOD] * good)
    assert len(asked) <= 2 + ceil(log2(bad + good))


def test_a_long_stretch_that_cannot_be_judged_is_left_quickly() -> None:
    history = [BAD] * 100 + [SKIP] * 800 + [BAD] * 50 + [GOOD] * 50
    border, asked = walked(history)
    assert (border, len(asked) < 40) == (Border(bad=949, good=950), True)


@given(st.lists(st.sampled_from(Shown), min_size=1, max_size=30))
def test_a_border_is_real_in_any_history(history: list[Shown]) -> None:
    border, _ = walked(history)
    if border.bad is not None and border.good is not None:
        between = range(border.bad + 1, border.good)
        assert (history[border.bad], history[border.good], {history[at] for at in between} - {SKIP}) == (
            BAD,
            GOOD,
            set(),
        )
        assert border.hidden == tuple(between)


# --- which stretches of a history are searched ------------------------------------------------------------------------


class Letters:
    """A history whose members are letters; from `bad` to before `good` they show the bug."""

    subject = "letters"
    ALL = tuple(Member(name=letter) for letter in "abcdefgh")

    def __init__(self, bad: str, good: str) -> None:
        self._bad, self._good = bad, good

    def find(self, name: str, option: str) -> Member:
        del option
        return Member(name=name)

    def is_older(self, one: Member, other: Member) -> bool:
        return one.name < other.name

    def oldest(self) -> Member:
        return self.ALL[0]

    def newest(self) -> Member:
        return self.ALL[-1]

    def between(self, older: Member, newer: Member) -> tuple[Member, ...]:
        return tuple(one for one in self.ALL if older.name <= one.name <= newer.name)

    def look(self, member: Member) -> MemberCheck:
        if member.name == "e":
            return MemberCheck(shown=SKIP, words="cannot be installed")
        return MemberCheck(shown=BAD if self._bad <= member.name < self._good else GOOD, words="as it is")


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
            "It is already in letters f (e could not be judged).",
            [Ending.NOT_JUDGED],
        ),
        (Letters("c", "g"), ("h", "a"), "letters h does not show It: there is nothing to bisect.", [Ending.NO_BORDER]),
        (Letters("c", "g"), ("e", "a"), "letters e should show It, and could not be judged.", [Ending.NOT_JUDGED]),
    ],
)
def test_what_is_given_says_which_borders_are_sought_and_one_sentence_what_came_of_it(
    history: Letters, ends: tuple[str, ...], says: str, endings: list[Ending]
) -> None:
    found = bisected(history, *ends)
    assert (sentence(found, "It"), [one.ending for one in found.searched]) == (says, endings)


def test_the_table_has_a_row_for_each_member_that_was_looked_at() -> None:
    found = bisected(Letters("c", "g"), "f", "a", "h")
    assert list(table(found)) == [
        "letters  showed",
        "a        good    as it is",
        "b        good    as it is",
        "c        bad     as it is",
        "f        bad     as it is",
        "g        good    as it is",
        "h        good    as it is",
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
    """As if the kernel had this name."""
    (launch,) = run.launches
    memory = tuple(replace(event, site=replace(event.site, kernel=name)) for event in run.memory)
    return replace(run, launches=(replace(launch, kernel=name),), memory=memory)


@pytest.mark.parametrize(
    ("run", "signature", "look"),
    [
        (facts(PLAINEST, always), OVERLAP, MemberCheck(shown=BAD, words=f"write-overlap: {KERNEL} layernorm.py:431")),
        (facts(PLAINEST, never), OVERLAP, MemberCheck(shown=GOOD, words="does not show it")),
        (facts(PLAINEST, always), None, MemberCheck(shown=BAD, words=f"write-overlap: {KERNEL} layernorm.py:431")),
        (facts(PLAINEST, never), None, MemberCheck(shown=GOOD, words="does not show it")),
        (
            facts(PLAINEST, always),
            replace(OVERLAP, oracle="bounds"),
            MemberCheck(shown=GOOD, words=f"does not show it; fails write-overlap: {KERNEL} layernorm.py:431"),
        ),
        (
            facts(PLAINEST, always),
            replace(OVERLAP, place="fused.py:7"),
            MemberCheck(shown=GOOD, words=f"does not show it; fails write-overlap: {KERNEL} layernorm.py:431"),
        ),
        (
            with_kernel(facts(PLAINEST, always), "renamed"),
            OVERLAP,
            MemberCheck(shown=SKIP, words="instead: write-overlap: renamed layernorm.py:431"),
        ),
        (
            raising(PLAINEST),
            OVERLAP,
            MemberCheck(
                shown=SKIP, words="TypeError was raised in phase forward: layer_norm() got an unexpected keyword"
            ),
        ),
        (
            raising(PLAINEST),
            replace(OVERLAP, oracle="completes", kernel="", place="RuntimeError: no"),
            MemberCheck(
                shown=SKIP, words="TypeError was raised in phase forward: layer_norm() got an unexpected keyword"
            ),
        ),
    ],
)
def test_a_run_is_evidence_only_where_the_promise_was_judged(
    run: Run, signature: Signature | None, look: MemberCheck
) -> None:
    assert look_of(replayed(run, signature)) == look


def test_what_the_engine_cannot_execute_is_skipped_with_its_reason() -> None:
    look = look_of(replayed(unsupported(PLAINEST)))
    assert (look.shown, look.words.startswith("the engine cannot execute tt.histogram")) == (SKIP, True)


@pytest.mark.parametrize(
    ("shown", "sum_"),
    [
        ((GOOD,), MemberCheck(shown=GOOD, words="good")),
        ((GOOD, GOOD), MemberCheck(shown=GOOD, words="good (in 2 runs)")),
        ((GOOD, SKIP, BAD), MemberCheck(shown=BAD, words="bad (in run 3)")),
        ((GOOD, SKIP, GOOD), MemberCheck(shown=SKIP, words="skip")),
    ],
)
def test_one_bad_run_of_several_is_enough_and_one_that_says_nothing_spoils_the_good(
    shown: tuple[Shown, ...], sum_: MemberCheck
) -> None:
    assert sum_of([MemberCheck(shown=one, words=str(one)) for one in shown]) == sum_
