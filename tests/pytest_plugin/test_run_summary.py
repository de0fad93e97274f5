"""What pytest's last lines say of where cases ran."""

from harness.pytest_plugin.run_summary import CASES, PLACE, UNJUDGED, WHY, lines

H200 = (PLACE, "NVIDIA H200 (132 SMs)")
VIRTUAL = (PLACE, "the virtual GPU")


def test_each_place_is_told_with_its_tests_cases_and_reasons() -> None:
    tests = [
        [H200, (CASES, "30"), (UNJUDGED, "2 the case does not fit")],
        [H200, (CASES, "12"), (UNJUDGED, "1 the case does not fit"), (UNJUDGED, "4 a giant case")],
        [VIRTUAL, (CASES, "1")],
        [("record", "of another test")],
    ]
    assert list(lines(tests, ["no fla-core", "no fla-core"])) == [
        "on NVIDIA H200 (132 SMs): 2 tests, 42 cases",
        "  4 not judged: a giant case",
        "  3 not judged: the case does not fit",
        "on the virtual GPU: 1 tests, 1 cases",
        "skipped: 2 tests: no fla-core",
    ]


def test_where_there_was_no_choice_it_says_why() -> None:
    why = (WHY, "no GPU for cases: libcuda.so.1 is not there")
    assert list(lines([[VIRTUAL, (CASES, "30"), why]], [])) == [
        "on the virtual GPU: 1 tests, 30 cases (no GPU for cases: libcuda.so.1 is not there)"
    ]


def test_a_run_without_suites_says_nothing() -> None:
    assert list(lines([[("record", "1")]], ["no GPU"])) == []
