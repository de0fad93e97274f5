"""What an engine brings to the execution of a case: where tensors live, and what it sees of the launches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from harness.model.case import Case
from harness.model.run import Ending, Raised

Writer = tuple[str, str] | None
"""The kernel and the argument through which a tensor was stored; None where no launch did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLaunches:
    """What an engine has seen of the case that is just running."""

    writer_of: Callable[[torch.Tensor], Writer] = lambda _: None
    """The launch that stored a tensor last."""
    dot_precisions: Callable[[], Iterable[str]] = lambda: ()
    """Input precisions of the dots of all launches."""
    is_compared: Callable[[Case], bool] = lambda _: True
    """Whether other runs may be compared with this one by its tolerances."""


NOTHING_SEEN = ObservedLaunches()


def blamed(ending: Ending, failed: tuple[str, int] | None) -> Ending:
    """What was raised, with the kernel that was being built or launched, and how many configs it has."""
    if failed is None or not isinstance(ending, Raised):
        return ending
    kernel, configs = failed
    return replace(ending, launch=kernel, config_count=configs)


class Elsewhere(Protocol):
    """Where tensors live for a library whose kernels do not run on the CPU."""

    def lend(self, values: torch.Tensor) -> torch.Tensor:
        """A copy there, laid out alike, with the same relation to a graph."""
        ...

    def fetch(self, values: torch.Tensor) -> torch.Tensor:
        """A copy here, cut off from any graph."""
        ...
