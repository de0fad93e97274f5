"""The hooks of an execution: the launches that an engine observes, where tensors live, and who follows the steps."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from harness.execution.row_trials import SeenRows
from harness.execution.tolerance import Expected
from harness.model.case import Case
from harness.model.op import Op
from harness.model.row_check import RowDifference
from harness.model.run import Ending, Raised, Unsupported, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLaunches:
    """The launches of the case in progress, as far as its execution asks the engine about them."""

    writer_of: Callable[[torch.Tensor], Writer] = lambda _: None
    """The launch that last stored into a tensor."""
    dot_precisions: Callable[[], Iterable[str]] = lambda: ()
    """Input precisions of the dots of all launches."""
    is_compared: Callable[[Case], bool] = lambda _: True
    """True if other runs may be compared with this one by its tolerances."""
    on_imported: Callable[[], None] = lambda: None
    """Called in the main thread once the library is imported, before it is called."""


NO_LAUNCHES = ObservedLaunches()


class LaunchedTensorsWatcher(Protocol):
    """Sees the tensors of each launch on the virtual GPU, and must not change them."""

    def before(self, tensors: Mapping[str, torch.Tensor], /) -> None:
        """Called before the programs run, with the tensors by argument name."""
        ...

    def after(self, tensors: Mapping[str, torch.Tensor], stored: Collection[str], /) -> None:
        """Called after they ran; `stored` are the names of the arguments through which the kernel may store."""
        ...


launch_watchers: list[LaunchedTensorsWatcher] = []
"""Those of the call in progress in this process."""


def with_failed_kernel(ending: Ending, failed: tuple[str, int] | None) -> Ending:
    """Return the ending with the kernel that was being built or launched; a raised one also has its config count."""
    if failed is None:
        return ending
    kernel, configs = failed
    match ending:
        case Raised():
            return replace(ending, launch=kernel, config_count=configs)
        case Unsupported(kernel=""):
            return replace(ending, kernel=kernel)
        case _:
            return ending


class TensorTransfer(Protocol):
    """Copies tensors between CPU and GPU, for an engine whose kernels run on a GPU."""

    def to_gpu(self, values: torch.Tensor) -> torch.Tensor:
        """Return a copy on the GPU: same layout, and a leaf that requires a gradient if the original does."""
        ...

    def to_cpu(self, values: torch.Tensor) -> torch.Tensor:
        """Return a detached copy on the CPU."""
        ...


class ExecutionObserver(Protocol):
    """Follows the steps of an op's execution, for instance to write them down as a program.

    Observers must not change a tensor.
    """

    def on_begin(self, case: Case, *, is_again: bool) -> None:
        """Called before the inputs are made; `is_again` if the case is computed once more."""
        ...

    def on_outputs(self, outputs: Mapping[str, torch.Tensor]) -> None:
        """Called after the library's forward call returned, with its outputs by name."""
        ...

    def on_expected(self, op: Op, results: Mapping[str, torch.Tensor], expected: Mapping[str, Expected]) -> None:
        """Called with outputs and gradients, and with what they should be.

        Called again with another `expected` if the comparison needs more samples of random rounding: the last counts.
        """
        ...

    def on_rows(self, seen: SeenRows, differences: Mapping[str, RowDifference | None]) -> None:
        """Called after a trial of a row check, with how each result that carries the rows differs."""
        ...


class NoObserver:
    """An observer that does nothing."""

    def on_begin(self, case: Case, *, is_again: bool) -> None:
        pass

    def on_outputs(self, outputs: Mapping[str, torch.Tensor]) -> None:
        pass

    def on_expected(self, op: Op, results: Mapping[str, torch.Tensor], expected: Mapping[str, Expected]) -> None:
        pass

    def on_rows(self, seen: SeenRows, differences: Mapping[str, RowDifference | None]) -> None:
        pass
