"""A campaign keeps the cases that are worth trying first in the next one."""

from dataclasses import replace
from itertools import permutations

from harness.model.case import Case, Scale
from harness.model.executed_lines import ExecutedLines, FileLines
from harness.model.merging import merged
from harness.model.promising import MOST_KEPT, Promise, PromisingCase, best_promising
from harness.model.run import Measure, Run
from harness.search.promising_cases import PromisingCases
from tests.reports.samples import REPORT
from tests.search.fakes import clean, result_of, with_dims

Place = tuple[bool, int, str]


def place(number: int) -> Place:
    return (False, number, "")


def run_of(case: Case, *, lines: tuple[int, int] = (1, 1), error: float = 0.0, programs: int = 1) -> Run:
    run, at = clean(case), Measure(ratio=error, index=(0,), got=0.0, expected=0.0)
    return replace(
        run,
        lines=(ExecutedLines(files=(FileLines(file="a.py", ranges=(lines,)),)),),
        launches=(replace(run.launches[0], grid=(programs, 1, 1)),),
        results=(replace(result_of(0.0, 0.0), whole=at, worst_tile=at),),
    )


def kept(*runs: Run) -> list[tuple[int, Promise]]:
    """Return the kept cases by their T, for runs in the order of their cases."""
    found = PromisingCases()
    for number, run in enumerate(runs):
        found.count(run.case, place(number), run)
    return [(row.case.dims["T"], row.reason) for row in found.rows()]


def test_the_first_case_on_a_line_is_promising() -> None:
    assert kept(
        run_of(with_dims(T=9)),
        run_of(with_dims(T=3)),
        run_of(with_dims(T=5), lines=(1, 2)),
        run_of(with_dims(T=7), lines=(2, 2)),
    ) == [(5, Promise.NEW_LINE), (9, Promise.NEW_LINE)]


def test_grids_of_one_power_of_two_are_alike() -> None:
    runs = (run_of(with_dims(T=t), programs=programs) for t, programs in ((1, 4), (2, 7), (3, 8)))
    assert kept(*runs) == [(1, Promise.NEW_LINE), (3, Promise.NEW_LAUNCH)]


def test_the_largest_error_within_the_tolerance_is_promising() -> None:
    errors = {2: 0.6, 3: 0.9, 4: 1.1, 5: 0.5}
    assert kept(run_of(with_dims(T=1)), *(run_of(with_dims(T=t), error=error) for t, error in errors.items())) == [
        (3, Promise.NEAR_TOLERANCE),
        (1, Promise.NEW_LINE),
    ]


def test_only_cases_of_usual_size_are_kept() -> None:
    assert kept(run_of(replace(with_dims(T=1), scale=Scale.OVERSIZED))) == []


def test_the_order_in_which_runs_come_back_has_no_say() -> None:
    runs = [
        (number, run_of(with_dims(T=t), lines=lines, error=error, programs=t))
        for number, (t, lines, error) in enumerate(
            [(9, (1, 1), 0.7), (3, (1, 3), 0.7), (5, (2, 4), 0.9), (6, (1, 4), 0)]
        )
    ]
    every: list[tuple[PromisingCase, ...]] = []
    for order in permutations(runs):
        found = PromisingCases()
        for number, run in order:
            found.count(run.case, place(number), run)
        every.append(found.rows())
    assert every == [every[0]] * len(every)


def row(t: int, reason: Promise, error: float = 0.0) -> PromisingCase:
    case = with_dims(T=t)
    return PromisingCase(op=case.op, device=case.device.slug, reason=reason, case=case, error=error)


def test_the_smallest_cases_of_each_op_and_device_are_kept() -> None:
    rows = [row(t, Promise.NEW_LAUNCH) for t in range(40, 0, -1)]
    elsewhere = [replace(one, device="h200") for one in rows[:2]]
    best = best_promising([*rows, *elsewhere])
    assert [one.case.dims["T"] for one in best] == [39, 40, *range(1, MOST_KEPT + 1)]


def test_merged_searches_keep_the_best_of_both() -> None:
    one = replace(REPORT, promising=(row(2, Promise.NEAR_TOLERANCE, 0.6), row(1, Promise.NEW_LINE)))
    other = replace(REPORT, promising=(row(9, Promise.NEAR_TOLERANCE, 0.8), row(1, Promise.NEW_LAUNCH)))
    expected = (row(9, Promise.NEAR_TOLERANCE, 0.8), row(1, Promise.NEW_LINE))
    assert merged([one, other]).promising == merged([other, one]).promising == expected
