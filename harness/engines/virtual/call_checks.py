"""The second runs that check later calls: after a call with other sizes or one that fails, and from a CUDA graph."""

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import count

import torch

from harness.engines.triton.triton_seam import ConfigChooser
from harness.engines.virtual.key_check import difference, legal_neighbours
from harness.engines.virtual.launches import VirtualCaseLaunches
from harness.execution.captured_calls import CapturedCall
from harness.execution.execution import Execution
from harness.execution.execution_hooks import launch_watchers
from harness.execution.reruns import fails_between
from harness.model.case import Case
from harness.model.later_calls import FreedMemory, GraphReplay, LaterCall
from harness.model.op import Op

_CALLS = count(1)
"""Calls in between have other values each time: the same ones could leave again what the last one left."""
SMALL = 4096
"""Elements of an input that take hardly longer than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChecks:
    """Calls an op again in this process, with the inputs of a case."""

    op: Op
    execution: Execution
    chooser: ConfigChooser
    state_for: Callable[[Case], AbstractContextManager[VirtualCaseLaunches]]
    """Makes the context of one run of a case."""

    def call_later(self, case: Case) -> LaterCall:
        """Run the case after a call with other sizes, or after one that fails."""
        other = self._largest_near(case)
        if other is None or fails_between(case):
            with self.state_for(case), _failing_launches():
                self.execution.run_unread(self.op, case)
            between = "a call whose first launch fails"
        else:
            other = replace(other, seed=case.seed + next(_CALLS))
            with self.state_for(other):
                self.execution.run_unread(self.op, other)
            between = f"a call with {difference(case, other)}"
        with self.state_for(case) as launches:
            ending, results = self.execution.run_later(self.op, case)
        return LaterCall(
            between=between,
            ending=launches.ending(ending, self.chooser.failed),
            digests=results.digests,
            projections=results.projections,
        )

    def _largest_near(self, case: Case) -> Case | None:
        """Return the largest case of about the same cost: it leaves most behind."""
        size = self.op.largest_input
        limit = 2 * size(case.dims) + SMALL
        others = (other for other in legal_neighbours(self.op, case) if size(other.dims) <= limit)
        return max(others, key=lambda other: size(other.dims), default=None)

    def replay(self, case: Case) -> GraphReplay:
        """Run the case in a CUDA graph, beside calls without one, and another one while the graph is kept."""
        with self.state_for(case) as launches:
            replayed, captured = self.execution.run_captured(self.op, case)
            replayed = replace(replayed, ending=launches.ending(replayed.ending, self.chooser.failed))
        return replace(replayed, freed=self._freed_beside(case, captured)) if captured else replayed

    def _freed_beside(self, case: Case, captured: CapturedCall) -> tuple[FreedMemory, ...]:
        """Return the memory of a graph that a call with other sizes frees, or one with other values.

        Whether that call completes does not matter: it is no call of the case.
        """
        other = replace(self._largest_near(case) or case, seed=case.seed + next(_CALLS))
        with self.state_for(other):
            self.execution.run_beside(self.op, other, captured)
        between = f"a call with {difference(case, other) or 'other values'}"
        return captured.outside.freed(between)


class _Failing:
    """Lets the first launch fail, as for lack of memory."""

    def before(self, tensors: Mapping[str, torch.Tensor]) -> None:
        del tensors
        raise torch.OutOfMemoryError("CUDA out of memory: the harness lets this launch fail")

    def after(self, tensors: Mapping[str, torch.Tensor], stored: Collection[str]) -> None:
        pass


@contextmanager
def _failing_launches() -> Generator[None]:
    launch_watchers.append(_Failing())
    try:
        yield
    finally:
        launch_watchers.clear()
