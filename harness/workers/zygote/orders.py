"""The orders to a shared zygote, in a module that imports next to nothing: a command gives them before all else."""

from dataclasses import dataclass

START_SHARED = "harness.workers.zygote.startup:start_shared"
"""The function that a shared zygote runs.  Its files: the control socket, the orders as JSON, and what it prints to."""
START_RESIDENT = "harness.workers.zygote.startup:start_resident"
"""The same for an engine's resident: its control socket is the one on which it listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOrders:
    """Orders of the parent to the shared zygote."""

    engine: str
    """The factory of the engine: `module:name`."""
    parent: int | None
    """The parent's process id; None under compute-sanitizer, whose own process is the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """How a resident lives."""

    path: str
    """The file of the socket on which it listens."""
    unused_limit_s: float
    """It ends when no command has used it for so long."""
    load_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentOrders:
    """Orders of the first command to an engine's resident."""

    engine: str
    residence: Residence
