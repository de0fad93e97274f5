"""The summary of where cases ran, in pytest's last lines."""

from ctypes.util import find_library

import pytest

from harness.pytest_plugin.gpu_workers import why_virtual
from harness.pytest_plugin.plugin_options import AUTO, RAN_ON
from harness.pytest_plugin.run_summary import CASES, NOT_CHECKED, UNCHECKED, UNTRIED, WHY, lines

H200 = (RAN_ON, "NVIDIA H200 (132 SMs)")
VIRTUAL = (RAN_ON, "the virtual GPU")


def test_each_place_is_listed_with_tests_cases_and_reasons() -> None:
    tests = [
        [H200, (CASES, "30"), (NOT_CHECKED, "2 the case does not fit")],
        [H200, (CASES, "12"), (NOT_CHECKED, "1 the case does not fit"), (NOT_CHECKED, "4 an oversized case")],
        [VIRTUAL, (CASES, "1")],
        [("record", "of another test")],
    ]
    assert list(lines(tests, ["no fla-core", "no fla-core"])) == [
        "on NVIDIA H200 (132 SMs): 2 tests, 42 cases",
        "  4 not checked: an oversized case",
        "  3 not checked: the case does not fit",
        "on the virtual GPU: 1 test, 1 case",
        "skipped: 2 tests: no fla-core",
    ]


def test_cases_that_were_not_checked_add_up() -> None:
    reasons = [(NOT_CHECKED, f"{count} reason {count}") for count in range(1, 8)]
    listed = list(lines([[VIRTUAL, (CASES, "30"), *reasons]], []))
    assert listed[1:] == [
        *(f"  {count} not checked: reason {count}" for count in range(7, 2, -1)),
        "  3 not checked for 2 more reasons",
    ]


def test_the_reason_for_the_virtual_gpu_is_given() -> None:
    why = (WHY, "no GPU for cases: the GPUs are not ready yet")
    assert list(lines([[VIRTUAL, (CASES, "30"), why]], [])) == [
        "on the virtual GPU: 1 test, 30 cases (no GPU for cases: the GPUs are not ready yet)"
    ]


@pytest.mark.skipif(find_library("cuda") is not None, reason="this machine has NVIDIA's driver")
def test_without_a_driver_no_reason_is_given(pytestconfig: pytest.Config) -> None:
    assert (pytestconfig.option.harness_engine, why_virtual(pytestconfig)) == (AUTO, "")


def test_what_was_not_checked_or_not_tried_is_named() -> None:
    tests = [
        [
            VIRTUAL,
            (CASES, "30"),
            (UNTRIED, "oversized cases: swish on h200"),
            (UNCHECKED, "norm on a100 (no case ran)"),
        ],
        [VIRTUAL, (CASES, "30"), (UNTRIED, "oversized cases: norm on h200")],
    ]
    assert list(lines(tests, [])) == [
        "on the virtual GPU: 2 tests, 60 cases",
        "  not tried: oversized cases: swish on h200, norm on h200",
        "  nothing checked: norm on a100 (no case ran)",
    ]


def test_a_run_without_suites_has_no_summary() -> None:
    assert list(lines([[("record", "1")]], ["no GPU"])) == []
