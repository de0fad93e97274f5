"""What the row check of a case says about each kernel, with the config that it ran with."""

from collections.abc import Iterator

from harness.model.paired_run import launch_of
from harness.model.row_check import RowBits, RowCell
from harness.model.run import Completed, Run
from harness.oracles.row_invariance import rounds_anyhow

SEVERITY = tuple(RowBits)


def row_cells(run: Run) -> tuple[RowCell, ...]:
    """Return one cell for each kernel that stored compared results, with the worst of what its trials show."""
    worst: dict[tuple[str, str], RowBits] = {}
    for kernel, bits in _each(run):
        launch = launch_of(run.launches, kernel)
        config = launch.config if launch and launch.config_count > 1 else ""
        known = worst.get((kernel, config), RowBits.SAME)
        worst[kernel, config] = max(known, bits, key=SEVERITY.index)
    return tuple(RowCell(kernel=kernel, config=config, bits=bits) for (kernel, config), bits in worst.items())


def _each(run: Run) -> Iterator[tuple[str, RowBits]]:
    writers = {result.name: result.writer[0] if result.writer else "" for result in run.results}
    for trial in run.rows.trials if run.rows else ():
        if not isinstance(trial.ending, Completed):
            continue
        differences = {difference.name: difference for difference in trial.differences}
        retiled = {change.kernel for change in trial.settings if change.is_tile}
        for name in trial.compared:
            kernel, difference = writers.get(name, ""), differences.get(name)
            if difference is None:
                yield kernel, RowBits.RETILED if kernel in retiled else RowBits.SAME
            elif difference.ratio > 1 or not rounds_anyhow(
                run, trial, difference.name
            ):  # else nothing follows for the library
                yield kernel, RowBits.of(difference.ratio)
