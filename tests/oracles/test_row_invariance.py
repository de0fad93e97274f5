"""`row-invariance` tells rounding from wrong values, and names what a kernel ran with."""

from dataclasses import replace
from typing import Any

import pytest

from harness.model.ending import Completed
from harness.model.row_check import RowBits, RowCell, RowChange, RowCheck, RowDifference, RowTrial, SettingChange
from harness.model.run import Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence
from harness.oracles.row_invariance import ATOMICS, NOT_RUN, NOTHING_CARRIES, ON_CPU, RowInvariance
from harness.search.row_cells import row_cells
from tests.oracles.facts import KERNEL, LAUNCH, raised, result, run

DIFFERENCE = RowDifference(name="y", index=(3, 0), value=1.0, other=1.0000001, cells=2, compared=64, ratio=0.01)
TRIAL = RowTrial(
    change=RowChange.PART, dims={"T": 4}, rows=4, ending=Completed(), compared=("y",), differences=(DIFFERENCE,)
)
WRITTEN = run(results=(replace(result("y"), writer=(KERNEL, "dx")),), launches=(replace(LAUNCH, config_count=4),))


def run_with(*trials: RowTrial, **fields: Any) -> Run:
    return replace(WRITTEN, rows=RowCheck(rows="T", trials=trials), **fields)


def verdicts(judged: Run) -> tuple[Verdict, ...]:
    return RowInvariance().judge(Evidence(run=judged))


def test_rounding_is_a_warning_with_the_config_and_the_first_element() -> None:
    (fail,) = verdicts(run_with(TRIAL))
    assert isinstance(fail, Fail)
    assert fail.signature.severity is Severity.WARNING
    assert (fail.signature.kernel, fail.signature.place) == (KERNEL, "dx")
    assert fail.message == (
        f"only rounding differs in y[3, 0]: 1 in the case and 1.0000001 with 4 rows of T alone (T=4) "
        f"(2 elements of 64 differ); {KERNEL} ran with [{LAUNCH.config}] both times"
    )


def test_a_sum_of_torch_excuses_no_kernel() -> None:
    (fail,) = verdicts(run_with(replace(TRIAL, torch_sums=("aten.sum",))))
    assert isinstance(fail, Fail)


def test_a_kernel_that_other_rows_do_not_launch_is_named() -> None:
    change = SettingChange(kernel="split_kernel", before="num_warps: 4", after="", is_tile=True)
    (fail,) = verdicts(run_with(replace(TRIAL, settings=(change,))))
    assert isinstance(fail, Fail)
    assert fail.message.endswith("split_kernel ran with [num_warps: 4] in the case and was not launched there")


def test_more_than_rounding_is_an_error() -> None:
    wrong = replace(TRIAL, differences=(replace(DIFFERENCE, ratio=50.0),))
    (fail,) = verdicts(run_with(wrong))
    assert isinstance(fail, Fail)
    assert fail.signature.severity is Severity.ERROR
    assert "by up to 50 times what rounding allows" in fail.message


def test_another_config_is_named_as_the_cause() -> None:
    change = SettingChange(kernel=KERNEL, before="BT: 16", after="BT: 32", is_config=True)
    (fail,) = verdicts(run_with(replace(TRIAL, settings=(change,))))
    assert isinstance(fail, Fail)
    assert fail.message.endswith(f"{KERNEL} ran with config [BT: 16] in the case and [BT: 32] there")


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        (WRITTEN, NOT_RUN),
        (run_with(replace(TRIAL, differences=(), compared=())), NOTHING_CARRIES),
        (run_with(replace(TRIAL, torch_sums=("aten.mm",))), ON_CPU),
        (run_with(replace(TRIAL, torch_sums=("aten.sum",)), results=(result("y"),)), ON_CPU),
        (run_with(TRIAL, engine="cuda", launches=(replace(LAUNCH, atomics=True),)), ATOMICS),
    ],
    ids=["not-run", "no-rows", "cpu-products", "cpu-sums", "atomics"],
)
def test_what_says_nothing_about_the_library_abstains(judged: Run, reason: str) -> None:
    assert verdicts(judged) == (Abstain(oracle="row-invariance", reason=reason),)


def test_a_trial_that_does_not_complete_abstains() -> None:
    (verdict,) = verdicts(run_with(replace(TRIAL, ending=raised(), differences=())))
    assert isinstance(verdict, Abstain)
    assert verdict.reason.startswith("with 4 rows of T alone (T=4), ")


def test_equal_bits_pass() -> None:
    same = replace(TRIAL, differences=())
    assert verdicts(run_with(same)) == (Pass(oracle="row-invariance"),)


def test_cells_of_the_table_have_the_worst_of_their_kernel() -> None:
    wrong = replace(TRIAL, differences=(replace(DIFFERENCE, ratio=50.0),))
    same = replace(TRIAL, differences=())
    retiled = replace(same, settings=(SettingChange(kernel=KERNEL, before="BT: 1", after="BT: 2", is_tile=True),))
    seen = [row_cells(run_with(*trials)) for trials in ((same,), (same, retiled), (TRIAL, retiled), (TRIAL, wrong))]
    assert seen == [(RowCell(kernel=KERNEL, config=LAUNCH.config, bits=bits),) for bits in RowBits]
    assert row_cells(run_with(replace(TRIAL, torch_sums=("aten.mm",)))) == ()
