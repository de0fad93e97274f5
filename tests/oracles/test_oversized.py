"""Only oracles that need neither values nor whole launches judge an oversized case."""

from dataclasses import replace

from harness.model.case import Scale
from harness.model.run import Access, AccessSite, AddressSpace, Run, Stray
from harness.model.verdict import Abstain, Fail, Outcome, Pass
from harness.oracles import registry
from tests.oracles.facts import KERNEL, LAUNCH, LINE_207, LINE_431, case, run

OVERSIZED = replace(run(of=replace(case(), scale=Scale.OVERSIZED)), results=())
STRAY = Stray(
    site=AccessSite(kernel=KERNEL, launch=0, argument="x", source=LINE_431),
    access=Access.LOAD,
    region=AddressSpace.OUTSIDE_STORAGE,
    lanes=64,
    program=2_097_152,
    element=-(2**31),
    wrapped=True,
)


def judged(given: Run) -> dict[str, type]:
    verdicts = registry.judge_all(given, {}, {})
    return {verdict.oracle: type(verdict) for verdict in verdicts}


def test_oracles_that_need_values_abstain_on_oversized_cases() -> None:
    verdicts = judged(OVERSIZED)
    passed = {name for name, verdict in verdicts.items() if verdict is Pass}
    assert passed == {"completes", "launch-limits", "scratch-memory", "bounds"}
    assert {name for name, verdict in verdicts.items() if verdict is Abstain} == set(verdicts) - passed


def test_an_oversized_case_requests_no_paired_runs() -> None:
    assert registry.paired_runs(OVERSIZED) == ()


def test_a_stray_access_of_an_oversized_case_fails() -> None:
    assert judged(replace(OVERSIZED, memory=(STRAY,)))["bounds"] is Fail


def test_an_overflowing_offset_fails_once_for_all_lines_of_its_kernel() -> None:
    elsewhere = replace(STRAY, site=replace(STRAY.site, argument="y", source=LINE_207))
    fails = [
        verdict
        for verdict in registry.judge_all(replace(OVERSIZED, memory=(STRAY, elsewhere)), {}, {})
        if isinstance(verdict, Fail)
    ]
    assert [(fail.oracle, fail.signature.place, fail.source, fail.idiom) for fail in fails] == [
        ("bounds", "an offset beyond 2^31 elements", LINE_431, "offset of 32 bits")
    ]


def test_an_ordinary_stray_access_of_an_oversized_case_has_its_line_as_place() -> None:
    ordinary = replace(STRAY, element=2**31 + 64, wrapped=False)
    fails = [one for one in registry.judge_all(replace(OVERSIZED, memory=(ordinary,)), {}, {}) if isinstance(one, Fail)]
    assert [(fail.oracle, fail.signature.place, fail.idiom) for fail in fails] == [("bounds", str(LINE_431), "")]


def test_abstains_on_cut_loops_unless_an_access_strayed() -> None:
    cut = replace(OVERSIZED, launches=(replace(LAUNCH, cut=True),))
    assert judged(cut)["bounds"] is Abstain
    assert judged(replace(cut, memory=(STRAY,)))["bounds"] is Fail
    assert registry.outcome(cut, registry.judge_all(cut, {}, {})) is Outcome.PASS  # of the launch's limits


def test_abstains_on_accesses_that_follow_from_unknown_values() -> None:
    steered = replace(OVERSIZED, launches=(replace(LAUNCH, steered_by=("counts",)),))
    (abstained,) = (verdict for verdict in registry.judge_all(steered, {}, {}) if verdict.oracle == "bounds")
    assert abstained == Abstain(
        oracle="bounds",
        reason=f"an oversized case computes few values, and on others depends what is accessed, in {KERNEL} (counts)",
    )
    assert judged(replace(steered, memory=(STRAY,)))["bounds"] is Fail
