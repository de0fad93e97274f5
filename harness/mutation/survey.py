"""What of a library the ops execute: the unmutated library is run, and its launches tell kernels and lines."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.model.op import Op
from harness.model.run import Run
from harness.mutation.executed_lines import Extent, Line, Lines
from harness.mutation.mutants import Mutant, mutants_of
from harness.search.kernel_coverage import CoverageRequest, measure
from harness.search.runner import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What one op executes."""

    op: Op
    kernels: frozenset[str]
    lines: frozenset[Line]

    def meets(self, mutant: Mutant) -> bool:
        """Whether the op executes what the mutant changes."""
        if not mutant.is_in_kernel:
            return not self.kernels.isdisjoint(mutant.launches)
        first, last = mutant.statement
        return Extent(file=mutant.file, first=first, last=last).meets(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the ops execute, each."""

    executed: tuple[Executed, ...]

    def ops(self, mutant: Mutant) -> tuple[Op, ...]:
        """Those that execute what the mutant changes."""
        return tuple(one.op for one in self.executed if one.meets(mutant))

    def mutants(self, libraries: tuple[Path, ...]) -> tuple[tuple[Path, Mutant], ...]:
        """All mutants of what is executed, each with its library, file by file.

        Raises:
            UsageError: nothing of the libraries is executed.
        """
        files = sorted({file for one in self.executed for file, _ in one.lines})
        found = tuple(
            (library, mutant)
            for library in libraries
            for file in files
            if (path := Path(file)).is_relative_to(library)
            for mutant in mutants_of(path.read_bytes(), path.relative_to(library).as_posix())
            if self.ops(mutant)
        )
        if not found:
            raise UsageError("the ops execute no kernel of the libraries that --with names: there is nothing to mutate")
        return found


def survey(order: CoverageRequest, runner: Runner, lines: Lines, ran: Callable[[Run], object]) -> Survey:
    """Run some cases of each op; `ran` is told of each."""
    shown: dict[str, list[Run]] = {op.id: [] for op in order.ops}

    def note(run: Run) -> None:
        shown[run.case.op].append(run)
        ran(run)

    measure(order, runner, note)
    return Survey(executed=tuple(_executed(order, shown, lines)))


def _executed(order: CoverageRequest, shown: dict[str, list[Run]], lines: Lines) -> Iterator[Executed]:
    for op in order.ops:
        launches = [launch for run in shown[op.id] for launch in run.launches]
        yield Executed(op=op, kernels=frozenset(launch.kernel for launch in launches), lines=lines.of(launches))
