"""What a fork server imports before it forks: with orders in the environment, importing this module obeys them.

The standard library's fork server can be told the name of a module and nothing else, and swallows its ImportError:
so the orders come in one variable, and what came of them stays here as a value for the children to report.
"""

import atexit
import faulthandler
import os
import sys
import traceback
import warnings
from dataclasses import dataclass

from harness import wire
from harness.workers import linux
from harness.workers.frames import Fault, FaultKind
from harness.workers.loading import Loaded, load
from harness.workers.spec import WorkerSpec
from harness.workers.standard_forkserver import put_python_path_back

ORDERS = "KERNEL_HARNESS_WORKER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the parent tells a fork server."""

    spec: WorkerSpec
    parent: int
    """The parent's process id."""
    log: str
    """The file that stdout and stderr go to while engine, suites and libraries load."""
    temporary: str
    """The folder for temporary files, which the parent removes."""


def obey(orders: Orders) -> Loaded | Fault:
    """Leave the parent's terminal, load, and see to it that nothing outlives parent or server."""
    os.setsid()
    linux.die_with(orders.parent)
    _print_to(orders.log)
    faulthandler.enable()
    put_python_path_back()
    os.environ["TMPDIR"] = orders.temporary
    # Libraries may start threads on import; forking then is deprecated (3.12), and an error where warnings are errors.
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    try:
        outcome = load(orders.spec)
    except (Exception, SystemExit):  # noqa: BLE001 — the process's own boundary: it lives on to say what happened
        outcome = Fault(kind=FaultKind.WORKER, message=f"a worker cannot be prepared:\n{traceback.format_exc()}")
    wire.warm_up()
    # From here on the fork server ends by itself when its parent is gone.  The kernel must not be quicker: the server
    # would leave behind what its children started.
    atexit.register(_kill_children, os.getpid())
    linux.outlive_parent()
    return outcome


def _print_to(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file, stream.fileno())
    os.close(file)


def _kill_children(server: int) -> None:
    if os.getpid() == server:
        for child in linux.children():
            linux.kill_group(child)


outcome = obey(wire.from_json(os.environ.pop(ORDERS), Orders)) if ORDERS in os.environ else None
