"""Regions of kernels whose failing sizes are known, and the region of a planted kernel in real processes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import catalogue
from harness.documents import files
from harness.documents.finding import RegionDocument
from harness.findings.region.mapping import MappedFailure, Mapper, MappingLimits
from harness.findings.region.points import PointChecker
from harness.findings.region.record import region_document, sentences
from harness.findings.region.rules import Vocabulary, agrees, rules
from harness.findings.region.size_probes import AxisLine, SizeProbe, border_probe
from harness.model.case import Case, DType
from harness.model.paired_run import RunRequest, case_of
from harness.model.region import (
    SMS,
    Axis,
    AxisKind,
    Beyond,
    Ended,
    Point,
    Region,
    RegionEdge,
    bound_of,
)
from harness.model.run import Run, Unsupported
from harness.model.verdict import Outcome, Severity, Signature
from harness.oracles import registry
from harness.search.campaign_plan import CaseBudget
from harness.search.judge import Judge
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite
from tests.search.fakes import DEVICE, KERNEL, OP, STORE, Shows, facts, unsupported, with_dims

JUDGE = Judge(oracles=(registry.find("write-overlap"),))
SIGNATURE = Signature(oracle="write-overlap", severity=Severity.WARNING, op="", kernel=KERNEL, place=str(STORE))
SMALL = MappingLimits(points=220, seconds=60.0)


def start(sms: int = 188, **dims: int) -> Case:
    return replace(with_dims(**dims), device=DEVICE.with_sm_count(sms))


def mapper(case: Case, make: Callable[[Case], Run], limits: MappingLimits = SMALL) -> Mapper:
    checker = PointChecker(OP, SIGNATURE, JUDGE, lambda request: make(case_of(request)))
    subject = MappedFailure(finding="7f3a09c1", op=OP, case=case, signature=SIGNATURE)
    return Mapper(subject, checker, limits, lambda _: None)


def region_of(case: Case, shows: Shows, limits: MappingLimits = SMALL) -> Region:
    made = mapper(case, lambda case: facts(case, shows), limits)
    made.run()
    return made.region()


def sms(case: Case) -> int:
    return case.device.sm_count


class TestARule:
    @pytest.mark.parametrize(
        ("case", "shows", "rule"),
        [
            pytest.param(
                start(T=2),
                lambda case: case.dims["T"] > 1 < sms(case) and -(-case.dims["T"] // sms(case)) % 32 != 0,
                "fails when T > 1, SMs > 1 and T / SMs, rounded up, is no multiple of 32 (BT)",
                id="rows of a program that do not fill its tiles",
            ),
            pytest.param(
                start(T=17),
                lambda case: case.dims["T"] > 16 and case.dims["T"] % 16 != 0,
                "fails when T > 16 and T is no multiple of 16",
                id="a tail",
            ),
            pytest.param(
                start(T=33), lambda case: case.dims["T"] > 32, "fails when T > 32", id="more than one tile"
            ),
            pytest.param(
                start(T=32 * 188 // 4, sms=40),
                lambda case: case.dims["T"] > 32 * sms(case),
                "fails when T > 32 (BT) x SMs",
                id="more programs than are resident",
            ),
            pytest.param(start(), lambda case: case.dims["T"] < sms(case), "fails when T < SMs", id="idle programs"),
            pytest.param(
                start(T=5, D=1000),
                lambda case: case.dims["T"] * case.dims["D"] > 4096,
                "fails when T x D > 4096",
                id="an offset that overflows",
            ),
            pytest.param(start(), lambda _: True, "fails everywhere", id="always"),
        ],
    )  # fmt: skip
    def test_is_the_kernels_own_condition(self, case: Case, shows: Shows, rule: str) -> None:
        found = region_of(case, shows)
        assert (str(found.rule), found.stop_reason) == (rule, Ended.COMPLETE)
        assert all(
            (point.outcome is Outcome.FAIL) is found.rule.fails(point.sizes) for point in found.points if found.rule
        )

    def test_is_none_if_the_vocabulary_cannot_express_it(self) -> None:
        found = region_of(
            start(), lambda case: case.dims["T"] == 1 or hash((case.dims["T"] * 7919, sms(case))) % 3 == 0
        )
        assert found.rule is None
        assert "follows no simple rule" in sentences(found)[0]


SIZES = st.fixed_dictionaries({"T": st.integers(1, 70), "D": st.integers(1, 9), SMS: st.sampled_from((1, 2, 5, 188))})
POINTS = st.lists(
    st.builds(lambda at, outcome: Point(sizes=at, outcome=outcome), SIZES, st.sampled_from(Outcome)),
    max_size=40,
    unique_by=lambda point: tuple(point.sizes.values()),
)
WORDS = Vocabulary(tiles=frozenset({16, 32}), labels={32: "BT"})


@given(POINTS)
def test_every_rule_agrees_with_every_point(points: list[Point]) -> None:
    assert [str(rule) for rule in rules(points, WORDS) if not agrees(rule, points)] == []


@given(st.lists(SIZES, min_size=1, max_size=60, unique_by=lambda at: tuple(at.values())), st.integers(0, 10**6))
def test_points_that_a_rule_decides_have_a_rule(places: list[dict[str, int]], seed: int) -> None:
    border, tile = seed % 60, (8, 16, 32)[seed % 3]
    outcomes = (
        Outcome.FAIL if at["T"] > border and at["T"] % tile != 0 and at[SMS] > 1 else Outcome.PASS for at in places
    )
    points = [Point(sizes=at, outcome=outcome) for at, outcome in zip(places, outcomes, strict=True)]
    seen = {point.outcome for point in points}
    assert bool(rules(points, WORDS)) is (Outcome.FAIL in seen)


# --- probes ----------------------------------------------------------------------------------------------------------


def follow(probe: SizeProbe, fails: Callable[[int], bool]) -> dict[int, Outcome]:
    """Return the sizes that the probe tried, with their outcomes."""
    tried: dict[int, Outcome] = {}
    size = next(probe, None)
    while size is not None:
        assert size not in tried
        tried[size] = Outcome.FAIL if fails(size) else Outcome.PASS
        try:
            size = probe.send(tried[size])
        except StopIteration:
            break
    return tried


@given(st.tuples(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000)).map(sorted))
def test_the_borders_of_an_interval_are_found_in_few_steps(ordered: list[int]) -> None:
    first, home, last = ordered
    axis = Axis(kind=AxisKind.DIM, name="T", low=1, high=3000)
    line = AxisLine(axis=axis, start={"T": home}, likely=(), is_allowed=lambda _: True)
    tried = follow(border_probe(line), lambda size: first <= size <= last)
    points = [Point(sizes={"T": size}, outcome=outcome) for size, outcome in {**tried, home: Outcome.FAIL}.items()]
    bound = bound_of(axis, line.start, points)
    below = RegionEdge(last=1, beyond=Beyond.NOTHING, next=1)
    above = RegionEdge(last=3000, beyond=Beyond.NOTHING, next=3000)
    assert bound.below == (RegionEdge(last=first, beyond=Beyond.PASSES, next=first - 1) if first > 1 else below)
    assert bound.above == (RegionEdge(last=last, beyond=Beyond.PASSES, next=last + 1) if last < 3000 else above)
    assert len(tried) <= 50


def test_only_legal_sizes_are_tried() -> None:
    axis = Axis(kind=AxisKind.DIM, name="T", low=1, high=300)
    line = AxisLine(axis=axis, start={"T": 60}, likely=(59, 61, 72), is_allowed=lambda sizes: sizes["T"] % 12 == 0)
    tried = follow(border_probe(line), lambda size: size >= 36)
    assert {size % 12 for size in tried} == {0}
    assert (tried[36], tried[24]) == (Outcome.FAIL, Outcome.PASS)


# --- the map ---------------------------------------------------------------------------------------------------------


def test_an_abstained_point_neither_fails_nor_passes() -> None:
    def make(case: Case) -> Run:
        return unsupported(case) if case.dims["T"] > 100 else facts(case, lambda case: case.dims["T"] > 8)

    made = mapper(start(T=9), make)
    made.run()
    found = made.region()
    by_rows = {point.sizes["T"]: point for point in found.points}
    assert {by_rows[rows].outcome for rows in by_rows if rows > 100} == {Outcome.ABSTAIN}
    assert "tt.histogram" in by_rows[2048].reason
    assert str(found.rule) == "fails when T > 8"
    assert "T: fails from 9 to 100; 8 passes; 101 cannot be checked" in "\n".join(sentences(found))


def test_another_failure_of_the_same_oracle_abstains() -> None:
    def make(case: Case) -> Run:
        run = facts(case, lambda _: True)
        worse = tuple(replace(event, same_bytes=False) for event in run.memory)
        return replace(run, memory=worse) if case.dims["D"] > 1 else run

    made = mapper(start(), make, MappingLimits(points=100, seconds=60.0))
    made.run()
    other = next(point for point in made.region().points if point.sizes["D"] > 1)
    assert (other.outcome, other.reason.partition(":")[0]) == (Outcome.ABSTAIN, "another failure")


def test_each_setting_that_matters_has_a_sentence() -> None:
    def make(case: Case) -> Run:
        run = facts(case, lambda case: case.dtype is not DType.FP32 and case.configs.get(KERNEL, 0) >= 3)
        tile = 64 if case.configs.get(KERNEL, 0) >= 3 else 32
        return replace(run, launches=tuple(replace(one, config=f"BT: {tile}, num_warps: 4") for one in run.launches))

    made = mapper(replace(start(), dtype=DType.BF16, configs={KERNEL: 3}), make)
    made.run()
    said = sentences(made.region())
    assert f"configs of {KERNEL}: fails where BT is 64 (3 of 6), passes with the others." in said
    assert "dtype: fails with bf16 and fp16; passes with fp32." in said


def test_the_wanted_gradients_are_settings() -> None:
    made = mapper(replace(start(), frozen=("x",)), lambda case: facts(case, lambda case: "x" in case.frozen))
    made.run()
    said = sentences(made.region())
    assert "gradient of x: fails with not wanted; passes with wanted." in said


def test_a_map_that_a_limit_ended_says_so() -> None:
    found = region_of(start(T=2), lambda case: case.dims["T"] > 1, MappingLimits(points=30, seconds=60.0))
    assert found.stop_reason is Ended.POINTS
    assert len(found.points) + len(found.settings) <= 30
    assert sentences(found)[-1].startswith("The map ended early")
    at_once = region_of(start(T=2), lambda case: case.dims["T"] > 1, MappingLimits(points=30, seconds=1e-9))
    assert (at_once.stop_reason, len(at_once.points)) == (Ended.SECONDS, 1)


def test_an_interrupt_keeps_the_points() -> None:
    ran: list[Case] = []

    def make(case: Case) -> Run:
        ran.append(case)
        if len(ran) > 20:
            raise KeyboardInterrupt
        return facts(case, lambda case: case.dims["T"] > 1)

    made = mapper(start(T=2), make)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    found = made.region()
    assert (found.stop_reason, len(found.points)) == (Ended.INTERRUPTED, 20)
    assert sentences(found)[-1].startswith("The map was interrupted")


def test_a_case_that_no_longer_fails_has_no_region() -> None:
    found = region_of(start(T=2), lambda _: False)
    assert (found.stop_reason, len(found.points)) == (Ended.NOT_SHOWN, 1)
    assert sentences(found)[0].endswith("There is no region to map.")


def test_few_sm_counts_are_tried() -> None:
    found = region_of(start(), lambda case: sms(case) % 3 != 0)
    assert 4 <= len({point.sizes[SMS] for point in found.points}) <= 12


def test_a_region_reads_back_as_it_was_written() -> None:
    found = region_of(start(T=2), lambda case: case.dims["T"] > 1 < sms(case), MappingLimits(points=60, seconds=60.0))
    assert files.loads(files.dumps(region_document(found)), RegionDocument).region == found


# --- a planted kernel ------------------------------------------------------------------------------------------------

PLANTED = Path(__file__).parents[3] / "suites" / "planted" / "unwritten_tail.py"


@pytest.fixture
def session() -> Iterator[Session]:
    options = Options(
        suites=(str(PLANTED),),
        ops=(),
        devices=(catalogue.find("rtx-pro-6000"),),
        budget=CaseBudget(cases=1),
        seed=0,
        processes=1,
    )
    with Session(options) as opened:
        yield opened


@pytest.mark.slow
def test_the_region_of_a_planted_kernel_matches_its_source(session: Session) -> None:
    op = load_suite(str(PLANTED))[0]
    case = Case(op=op.id, dims={"T": 17}, dtype=DType.FP32, device=catalogue.find("rtx-pro-6000"))
    signature = Signature(oracle="unwritten", severity=Severity.ERROR, op=op.portable_id, kernel="", place="y")

    def execute(request: RunRequest) -> Run:
        run = session.pool.run(request)
        assert not isinstance(run.ending, Unsupported)
        return run

    checker = PointChecker(op, signature, session.judge, execute)
    subject = MappedFailure(finding="f", op=op, case=case, signature=signature)
    made = Mapper(subject, checker, MappingLimits(points=100, seconds=300.0), lambda _: None)
    made.run()
    found = made.region()
    assert str(found.rule) == "fails when T > 16 and T is no multiple of 16 (BLOCK)"
    truth = {point.sizes["T"]: point.sizes["T"] > 16 and point.sizes["T"] % 16 != 0 for point in found.points}
    assert {point.sizes["T"]: point.outcome is Outcome.FAIL for point in found.points} == truth
