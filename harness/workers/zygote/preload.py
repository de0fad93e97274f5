"""What fork servers do before they fork: two kinds of them, one forked from the other.

The first is common to all devices: a fresh Python that imports this module with orders in its environment, and obeys
them.  The standard library's fork server can be told the name of a module and nothing else, and swallows its
ImportError: so the orders come in one variable, and what came of them stays here as a value.  The second is forked from
it for each device, wears that, and imports the libraries under test; what came of it stays here for its children.
"""

import faulthandler
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness import wire
from harness.workers.protocol import ChildError, FaultKind
from harness.workers.spec import WorkerSpec, ZygoteSpec
from harness.workers.supervision import linux
from harness.workers.zygote.loading import Loaded, Prepared, load, prepare
from harness.workers.zygote.standard_forkserver import has_owner, put_python_path_back, serve_forks

ORDERS = "KERNEL_HARNESS_WORKER"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundOrders:
    """What the parent tells the fork server that all devices share."""

    ground: ZygoteSpec
    parent: int | None
    """The parent's process id; None where another program stands between, which this process then belongs to."""
    log: str
    """The file that stdout and stderr go to while the engine loads."""
    temporary: str
    """The folder for temporary files, which the parent removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrders:
    """What the parent tells the fork server of one device."""

    spec: WorkerSpec
    log: str
    """The file that stdout and stderr go to while suites and libraries load."""


def obey(orders: GroundOrders) -> Prepared | ChildError:
    """Leave the parent's terminal, load, and see to it that nothing outlives parent or server."""
    os.setsid()
    linux.die_with(os.getppid() if orders.parent is None else orders.parent)
    _print_to(orders.log)
    faulthandler.enable()
    put_python_path_back()
    os.environ["TMPDIR"] = orders.temporary
    # Libraries may start threads on import; forking then is deprecated (3.12), and an error where warnings are errors.
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    outcome = _unless_it_fails(lambda: prepare(orders.ground))
    wire.warm_up()
    # From here on this fork server ends by itself when its parent is gone.  So do those forked from it, which have
    # children to clear away: nobody must be quicker and kill them.
    linux.outlive_parent()
    return outcome


def serve_device(fds: tuple[int, ...]) -> int:
    """The life of a device's fork server, forked from the common one; the result is its exit status."""
    listener_fd, alive_fd, orders_fd = fds
    with os.fdopen(orders_fd, "rb") as file:
        orders = wire.from_json(file.read(), DeviceOrders)
    os.setsid()
    match prepared:
        case Prepared() as ready:
            linux.die_with(ready.server)
            _print_to(orders.log)
            state.outcome = _unless_it_fails(lambda: load(orders.spec, ready)) if has_owner(alive_fd) else None
            linux.outlive_parent()
        case ChildError() | None:
            state.outcome = prepared
    try:
        serve_forks(listener_fd, alive_fd)
    finally:
        _kill_children()
    return 0


class State:
    """What a device's fork server, and so every child of it, has."""

    outcome: Loaded | ChildError | None = None


state = State()


def _unless_it_fails(work: Callable[[], T]) -> T | ChildError:
    try:
        return work()
    except (Exception, SystemExit):  # noqa: BLE001 — the process's own boundary: it lives on to say what happened
        return ChildError(kind=FaultKind.WORKER, message=f"a worker cannot be prepared:\n{traceback.format_exc()}")


def _print_to(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file, stream.fileno())
    os.close(file)


def _kill_children() -> None:
    for child in linux.children():
        linux.kill_group(child)


prepared = obey(wire.from_json(os.environ.pop(ORDERS), GroundOrders)) if ORDERS in os.environ else None
