"""How fork servers start: `start_shared` in a fresh Python, `start_device` in a process forked from that one.

The shared zygote loads what all devices have in common.  The fork server of each device is forked from it, emulates
that device and then imports the libraries under test.  Both keep their result in `state`, for the processes forked from
them: a failure to load is a value, which each child reports to the parent.
"""

import faulthandler
import json
import os
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness import wire
from harness.errors import MissingPart
from harness.workers.protocol import ChildError, FaultKind
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import linux
from harness.workers.zygote.fork_loop import has_owner, serve_forks
from harness.workers.zygote.loading import Loaded, Prepared, emulate, load, prepare
from harness.workers.zygote.orders import SharedOrders

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrders:
    """Orders of the parent to the fork server of one device."""

    spec: WorkerSpec
    log: str
    """The file for stdout and stderr while suites and libraries load."""
    temporary: str
    """The pool's folder for temporary files."""
    directory: str
    """The parent's working directory: the zygote may have started in another one."""
    modules: tuple[str, ...] = ()
    """What a server imports that emulates the device for others."""


class State:
    """The result of loading in this process; every process forked from it inherits it."""

    prepared: Prepared | ChildError | None = None
    loaded: Loaded | ChildError | None = None


state = State()


def start_shared(fds: tuple[int, ...]) -> int:
    """Load the engine, then fork device servers until the parent is gone; returns the exit status."""
    control_fd, orders_fd, log_fd = fds
    control = socket.socket(fileno=control_fd)
    with os.fdopen(orders_fd, "rb") as file:
        orders = SharedOrders(**json.load(file))
    os.setsid()  # Ctrl-C in the parent's terminal does not reach it
    linux.die_with(os.getppid() if orders.parent is None else orders.parent)
    _print_to(log_fd)
    faulthandler.enable()
    # Python 3.12 and later warn about a fork in a process that has threads, which libraries may start on import.
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    state.prepared = _or_error(lambda: prepare(orders.engine))
    wire.warm_up()
    # From here on the fork loop notices that the parent is gone.  Device servers do the same, for they have to clear
    # away the processes of their workers then.  A death signal would kill them before that.
    linux.outlive_parent()
    with control:
        serve_forks(control)
    return 0


def start_emulator(fds: tuple[int, ...]) -> int:
    """Emulate the device and import modules, then fork device servers until the parent is gone."""
    control, orders = _received(fds, DeviceOrders)
    os.setsid()
    if isinstance(prepared := state.prepared, Prepared):
        linux.die_with(prepared.server)
        _print_to(_opened(orders.log))
        if has_owner(control):
            state.prepared = _or_error(lambda: _emulated(orders, prepared))
        linux.outlive_parent()
    with control:
        serve_forks(control)
    return 0


def start_device(fds: tuple[int, ...]) -> int:
    """Emulate the device unless the process does, load suites and libraries, then fork workers."""
    control, orders = _received(fds, DeviceOrders)
    os.setsid()
    match state.prepared:
        case Prepared() as prepared:
            linux.die_with(prepared.server)
            _print_to(_opened(orders.log))
            # A parent that gave up, or died, while this request was queued needs no library to be loaded.
            state.loaded = _or_error(lambda: _load(orders, prepared)) if has_owner(control) else None
            linux.outlive_parent()
        case ChildError() | None as failed:
            state.loaded = failed
    try:
        with control:
            serve_forks(control)
    finally:
        for child in linux.children():
            linux.kill_group(child)
    return 0


def _load(orders: DeviceOrders, prepared: Prepared) -> Loaded | ChildError:
    _settle(orders)
    return load(orders.spec, prepared)


def _emulated(orders: DeviceOrders, prepared: Prepared) -> Prepared:
    _settle(orders)
    return emulate(orders.spec, prepared, orders.modules)


def _settle(orders: DeviceOrders) -> None:
    os.chdir(orders.directory)
    os.environ["TMPDIR"] = orders.temporary
    tempfile.tempdir = None  # the zygote's, if anything has asked for it there


def _received(fds: tuple[int, ...], kind: type[T]) -> tuple[socket.socket, T]:
    control_fd, orders_fd = fds
    with os.fdopen(orders_fd, "rb") as file:
        return socket.socket(fileno=control_fd), wire.from_json(file.read(), kind)


def _or_error(load_it: Callable[[], T]) -> T | ChildError:
    try:
        return load_it()
    except MissingPart as error:
        return ChildError(kind=FaultKind.PART, message=str(error))
    except (Exception, SystemExit):  # noqa: BLE001 - the process's own boundary: it lives on to report what happened
        return ChildError(kind=FaultKind.WORKER, message=f"a worker cannot be prepared:\n{traceback.format_exc()}")


def _opened(log: str) -> int:
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _print_to(file: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(file, stream.fileno())
    os.close(file)
