"""Verdicts on kernels, from builds and launches that are written down here."""

from typing import Any

import pytest

from harness import catalogue
from harness.documents.upgrade_report import KernelUpgrade, Right, UpgradeVerdict
from harness.matrix.cells import Cell
from harness.model.case import Case, DType
from harness.model.kernel_build import BuildFacts, CollectedBuild, CollectedKernel, CompileTarget
from harness.model.launch_difference import Difference
from harness.oracles.resources import Shortage
from harness.upgrade.case_records import ComparedCase, ComparedLaunch
from harness.upgrade.joined_builds import JoinedBuild
from harness.upgrade.judging import Agreement, Judgement
from harness.upgrade.verdicts import NO_LAUNCH, ONLY_OLD, ExaminedCase, kernel_upgrades

RIGHT, WRONG = Judgement(agreement=Agreement.RIGHT), Judgement(agreement=Agreement.WRONG, why="y[0] is 3")
ONE_ULP = (1.0, 2.0**-23)
FAR = (1e6, 0.5)


def cell(*, shortages: tuple[Shortage, ...] = (), removed: str = "", programs: int = 4, **facts: Any) -> Cell:
    target = CompileTarget(arch="90")
    build = CollectedBuild(
        config="BT: 32, num_warps: 4, maxnreg: None",
        index=0,
        is_kept=True,
        constants={},
        target=target,
        options={},
        removed=removed,
    )
    kernel = CollectedKernel(
        kernel="kernel",
        source=None,
        specialisation="0",
        signature={},
        constants={},
        is_tuned=False,
        op="suite.py:op",
        case="case",
        builds=(build,),
    )
    known: dict[str, Any] = {"registers_per_thread": 32, "assembly": "a", **facts}
    return Cell(
        kernel=kernel,
        build=build,
        device="h200",
        target=str(target),
        facts=BuildFacts(**known),
        shortages=shortages,
        programs_per_sm=programs,
    )


def joined(old: Cell | None, new: Cell | None, *, same_ttir: bool = True) -> JoinedBuild:
    return JoinedBuild(kernel="kernel", suite="suite.py", old=old, new=new, same_ttir=same_ttir)


def launched(
    *differences: tuple[float, float], skipped: str = "", old: Judgement = RIGHT, new: Judgement = RIGHT
) -> ExaminedCase:
    """Return a case with one launch of the kernel; a difference of its result is in ulps and by its largest element."""
    case = Case(op="suite.py:op", dims={}, dtype=DType.FP32, device=catalogue.find("h200"))
    found = tuple(
        Difference(kernel="kernel", argument="y", dtype="float32", elements=8, differing=1, ulps=ulps, scaled=scaled)
        for ulps, scaled in differences
    )
    launch = ComparedLaunch(kernel="kernel", config_index=0, differences=found, skipped=skipped)
    compared = ComparedCase(old_ending="", new_ending="", launches=(launch,))
    return ExaminedCase(case=case, compared=compared, old=old, new=new)


def upgraded(build: JoinedBuild, *cases: ExaminedCase, executes_ptx: bool = False) -> KernelUpgrade:
    (kernel,) = kernel_upgrades([build], cases, executes_ptx=executes_ptx)
    return kernel


def test_equal_ptx_is_the_same_code() -> None:
    assert upgraded(joined(cell(), cell()), launched()).verdict is UpgradeVerdict.SAME_CODE


def test_other_ptx_of_equal_ttir_is_not_compared_by_an_engine_of_ttir() -> None:
    assert upgraded(joined(cell(), cell(assembly="b")), launched()).verdict is UpgradeVerdict.SAME_TTIR


def test_an_engine_of_ptx_compares_the_bits_of_other_ptx() -> None:
    build = joined(cell(), cell(assembly="b"))
    assert upgraded(build, launched(), executes_ptx=True).verdict is UpgradeVerdict.SAME_BITS
    assert upgraded(build, executes_ptx=True).verdict is UpgradeVerdict.NOT_COMPARED


def test_other_ttir_that_nothing_launches_is_not_compared() -> None:
    found = upgraded(joined(cell(), cell(assembly="b"), same_ttir=False))
    assert (found.verdict, found.not_compared) == (UpgradeVerdict.NOT_COMPARED, (NO_LAUNCH,))


def test_a_launch_from_other_bytes_is_no_comparison() -> None:
    found = upgraded(joined(cell(), cell(assembly="b"), same_ttir=False), launched(skipped="x holds other bytes"))
    assert (found.verdict, found.not_compared) == (UpgradeVerdict.NOT_COMPARED, ("x holds other bytes",))


def test_a_kernel_of_one_release_is_not_compared() -> None:
    found = upgraded(joined(cell(), None))
    assert (found.verdict, found.not_compared) == (UpgradeVerdict.NOT_COMPARED, (ONLY_OLD,))


def test_one_ulp_is_rounding() -> None:
    assert upgraded(joined(cell(), cell(assembly="b")), launched(ONE_ULP)).verdict is UpgradeVerdict.ROUNDING


def test_rounding_that_only_the_new_release_cannot_afford_is_a_difference() -> None:
    found = upgraded(joined(cell(), cell(assembly="b")), launched(ONE_ULP, new=WRONG))
    assert (found.verdict, found.differences[0].right) == (UpgradeVerdict.DIFFERENT, Right.OLD)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "right"),
    [
        (WRONG, RIGHT, UpgradeVerdict.NEW_IS_RIGHT, Right.NEW),
        (RIGHT, WRONG, UpgradeVerdict.DIFFERENT, Right.OLD),
        (RIGHT, RIGHT, UpgradeVerdict.DIFFERENT, Right.BOTH),
        (WRONG, WRONG, UpgradeVerdict.DIFFERENT, Right.NEITHER),
        (Judgement(agreement=Agreement.UNKNOWN), RIGHT, UpgradeVerdict.DIFFERENT, Right.UNKNOWN),
    ],
)
def test_the_definition_says_which_of_two_results_is_right(
    old: Judgement, new: Judgement, verdict: UpgradeVerdict, right: Right
) -> None:
    found = upgraded(joined(cell(), cell()), launched(FAR, old=old, new=new))
    assert (found.verdict, found.differences[0].right) == (verdict, right)


def test_one_case_in_which_the_old_release_is_right_outweighs_others() -> None:
    cases = (launched(FAR, old=WRONG), launched(FAR, new=WRONG))
    assert upgraded(joined(cell(), cell()), *cases).verdict is UpgradeVerdict.DIFFERENT


def test_registers_count_where_they_cost_programs() -> None:
    more = joined(cell(), cell(registers_per_thread=40))
    fewer_programs = joined(cell(), cell(registers_per_thread=40, programs=3))
    assert (upgraded(more).verdict, upgraded(more).more_registers) == (UpgradeVerdict.SAME_CODE, 1)
    (growth,) = upgraded(fewer_programs).growths
    assert (growth.figure, growth.before, growth.now, growth.config) == ("registers", 32, 40, "BT: 32, num_warps: 4")
    assert upgraded(fewer_programs).verdict is UpgradeVerdict.NEEDS_MORE


@pytest.mark.parametrize(
    "fact", ["shared_bytes", "local_bytes_per_thread", "scratch_bytes_per_program", "profile_scratch_bytes_per_program"]
)
def test_any_more_memory_is_needed_more(fact: str) -> None:
    facts: dict[str, Any] = {fact: 8}
    assert upgraded(joined(cell(), cell(**facts))).verdict is UpgradeVerdict.NEEDS_MORE


def test_a_build_that_fits_no_more_fails() -> None:
    lack = Shortage(place="shared memory", seen="needs 300000 bytes of shared memory", needed=300_000, limit=232_448)
    found = upgraded(joined(cell(), cell(shortages=(lack,))))
    assert (found.verdict, found.failures[0].message) == (UpgradeVerdict.FAILS, lack.seen)


def test_a_build_that_failed_before_too_is_not_the_upgrades() -> None:
    lack = Shortage(place="compiler", seen="does not compile")
    broken = cell(shortages=(lack,), failure="CompilationError: no")
    found = upgraded(joined(broken, broken))
    reason = "the old release does not compile it: CompilationError: no"
    assert (found.verdict, found.not_compared) == (UpgradeVerdict.NOT_COMPARED, (reason,))


def test_a_name_that_is_gone_is_a_removed_api() -> None:
    lack = Shortage(place="compiler", seen="does not compile")
    gone = cell(shortages=(lack,), failure="CompilationError: gone", removed="triton.language.make_block_ptr")
    found = upgraded(joined(cell(), gone))
    assert (found.verdict, found.failures[0].removed) == (UpgradeVerdict.REMOVED, "triton.language.make_block_ptr")
