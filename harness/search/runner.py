"""What the search needs of the room that runs cases, and nothing more of it."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.paired_run import RunRequest
from harness.model.run import Launch, Run
from harness.workers.supervision.time_limits import Patience


class Runner(Protocol):
    """Runs cases in processes that may die of it: a crash, a hang or a library's exception is a run, never raised."""

    def submit(self, wanted: RunRequest) -> Future[Run]:
        """Run a case, or one beside another, as soon as a process is free."""
        ...

    def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """Run it in a process that may have run others, and wait."""
        ...

    def run_alone(self, wanted: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL) -> Run:
        """Run it in a fresh process, after `before` if anything, and wait."""
        ...


class ResourceSource(Protocol):
    """Where the figures of the whole compiler pipeline come from.  It works beside the search and never holds it up."""

    def of(self, launch: Launch) -> Resources | None:
        """The figures for this launch's build if they are known; otherwise asks for them and returns None at once."""
        ...

    def settle(self) -> None:
        """Wait, within the source's own limit, until the builds asked for are known."""
        ...


class NoResources:
    """Nothing is known of resources, and nothing will be."""

    def of(self, launch: Launch) -> Resources | None:
        """None, whatever the launch."""
        del launch

    def settle(self) -> None:
        """There is nothing to wait for."""
