"""A giant case is judged by what needs neither values nor whole launches; every other oracle abstains."""

from dataclasses import replace

import pytest

from harness.model.case import Scale
from harness.model.run import Access, AccessSite, AddressSpace, Run, Stray
from harness.model.verdict import Abstain, Fail, Outcome, Pass
from harness.oracles import registry
from tests.oracles.facts import KERNEL, LAUNCH, LINE_207, LINE_431, case, run

pytestmark = pytest.mark.once

GIANT = replace(run(of=replace(case(), scale=Scale.GIANT)), results=())
STRAY = Stray(
    site=AccessSite(kernel=KERNEL, launch=0, argument="x", source=LINE_431),
    access=Access.LOAD,
    region=AddressSpace.OUTSIDE_STORAGE,
    lanes=64,
    program=2_097_152,
    element=-(2**31),
)


def judged(given: Run) -> dict[str, type]:
    verdicts = registry.judge_all(given, {}, {})
    return {verdict.oracle: type(verdict) for verdict in verdicts}


def test_of_a_giant_case_only_endings_limits_resources_scratch_and_bounds_are_judged() -> None:
    verdicts = judged(GIANT)
    passed = {name for name, verdict in verdicts.items() if verdict is Pass}
    assert passed == {"completes", "launch-limits", "scratch-memory", "bounds"}
    assert {name for name, verdict in verdicts.items() if verdict is Abstain} == set(verdicts) - passed


def test_a_giant_case_asks_for_no_companions() -> None:
    assert registry.companions(GIANT) == ()


def test_a_stray_access_of_a_giant_case_is_a_failure() -> None:
    assert judged(replace(GIANT, memory=(STRAY,)))["bounds"] is Fail


def test_an_offset_that_overflows_is_one_failure_of_its_kernel_however_many_lines_use_it() -> None:
    elsewhere = replace(STRAY, site=replace(STRAY.site, argument="y", source=LINE_207))
    fails = [
        verdict
        for verdict in registry.judge_all(replace(GIANT, memory=(STRAY, elsewhere)), {}, {})
        if isinstance(verdict, Fail)
    ]
    assert [(fail.oracle, fail.signature.place, fail.source) for fail in fails] == [
        ("bounds", "an offset beyond 2^31 elements", LINE_431)
    ]


def test_loops_that_were_cut_short_say_nothing_of_bounds_unless_something_strayed() -> None:
    cut = replace(GIANT, launches=(replace(LAUNCH, cut=True),))
    assert judged(cut)["bounds"] is Abstain
    assert judged(replace(cut, memory=(STRAY,)))["bounds"] is Fail
    assert registry.outcome(cut, registry.judge_all(cut, {}, {})) is Outcome.PASS  # of the launch's limits
