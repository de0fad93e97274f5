"""The row check of a case: its trials, one after another, in the process of its main run."""

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from harness.execution.row_trials import Arrangement, OutputAxes, RowComparison, arrangements, setting_changes
from harness.model.op import Op
from harness.model.row_check import RowCheck, RowTrial
from harness.model.run import Completed, Ending, Launch, Run

NO_TRIAL = "no other number of rows is legal"
Work = Callable[[], tuple[Ending, RowComparison]]


@runtime_checkable
class RowExecution(Protocol):
    """An execution that can run rows of a case in other company."""

    def run_rows(self, op: Op, arrangement: Arrangement, axes: OutputAxes) -> tuple[Ending, RowComparison]:
        """Return how the trial ended, and its comparison; an empty one unless it completed."""
        ...


RunTrial = Callable[[Arrangement, Work], tuple[Ending, RowComparison, Iterable[Launch]]]
"""Runs a trial as an engine runs a case: its final ending, its comparison, and what it launched."""


def check_rows(execution: RowExecution, op: Op, run: Run, run_trial: RunTrial) -> RowCheck:
    """Return the row check of a main run, right after it; a trial that does not complete is the last one."""
    rows, is_packed, planned = arrangements(op, run.case)
    axes = OutputAxes()
    trials: list[RowTrial] = []
    for arrangement in planned:

        def work(arrangement: Arrangement = arrangement) -> tuple[Ending, RowComparison]:
            return execution.run_rows(op, arrangement, axes)

        ending, comparison, launches = run_trial(arrangement, work)
        trials.append(
            RowTrial(
                change=arrangement.change,
                dims=arrangement.changed_dims,
                rows=arrangement.rows,
                ending=ending,
                compared=tuple(comparison.found),
                differences=tuple(filter(None, comparison.found.values())),
                settings=setting_changes(run.launches, launches),
                torch_sums=comparison.torch_sums,
            )
        )
        if not isinstance(ending, Completed):
            break
    return RowCheck(rows=rows, is_packed=is_packed, trials=tuple(trials), obstacle="" if trials else NO_TRIAL)
