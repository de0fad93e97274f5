"""The orders to a shared zygote, in a module that imports next to nothing: a command gives them before all else."""

from dataclasses import dataclass

START_SHARED = "harness.workers.zygote.startup:start_shared"
"""The function that a shared zygote runs.  Its files: the control socket, the orders as JSON, and what it prints to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOrders:
    """Orders of the parent to the shared zygote."""

    engine: str
    """The factory of the engine: `module:name`."""
    parent: int | None
    """The parent's process id; None under compute-sanitizer, whose own process is the parent."""
