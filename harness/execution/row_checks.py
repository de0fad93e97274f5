"""The row check of a case: its trials, one after another, in the process of its main run."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from harness.execution.row_trials import Arrangement, OutputAxes, arrangements, setting_changes
from harness.model.op import Op
from harness.model.row_check import RowCheck, RowDifference, RowTrial
from harness.model.run import Completed, Ending, Launch, Run

NO_TRIAL = "no other number of rows is legal"
Differences = Mapping[str, RowDifference | None]
Work = Callable[[], tuple[Ending, Differences]]


@runtime_checkable
class RowExecution(Protocol):
    """An execution that can run rows of a case in other company."""

    def run_rows(self, op: Op, arrangement: Arrangement, axes: OutputAxes) -> tuple[Ending, Differences]:
        """Return how the trial ended, and how the rows of each result that carries them differ; None for equal bits."""
        ...


class RunsTrials(Protocol):
    """Runs a trial as an engine runs a case."""

    def __call__(self, arrangement: Arrangement, work: Work) -> tuple[Ending, Differences, Iterable[Launch]]:
        """Do the work; return its final ending, its differences, and what it launched."""
        ...


def check_rows(execution: RowExecution, op: Op, run: Run, run_trial: RunsTrials) -> RowCheck:
    """Return the row check of a main run, right after it; a trial that does not complete is the last one."""
    rows, is_packed, planned = arrangements(op, run.case)
    axes = OutputAxes()
    trials: list[RowTrial] = []
    for arrangement in planned:

        def work(arrangement: Arrangement = arrangement) -> tuple[Ending, Differences]:
            return execution.run_rows(op, arrangement, axes)

        ending, found, launches = run_trial(arrangement, work)
        trials.append(
            RowTrial(
                change=arrangement.change,
                dims=arrangement.changed_dims,
                rows=arrangement.rows,
                ending=ending,
                compared=tuple(found),
                differences=tuple(filter(None, found.values())),
                settings=setting_changes(run.launches, launches),
            )
        )
        if not isinstance(ending, Completed):
            break
    return RowCheck(rows=rows, is_packed=is_packed, trials=tuple(trials), obstacle="" if trials else NO_TRIAL)
