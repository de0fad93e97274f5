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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from harness import wire
from harness.errors import MissingPart
from harness.suite_files import located
from harness.workers.owned_folder import OwnedFolder
from harness.workers.protocol import ChildError, FaultKind
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import linux
from harness.workers.zygote import resident
from harness.workers.zygote.fork_loop import has_owner, serve_forks
from harness.workers.zygote.loading import Loaded, Prepared, emulate, load, prepare
from harness.workers.zygote.orders import Residence, SharedOrders
from harness.workers.zygote.process_context import EnvironmentChanges, ProcessContext

T = TypeVar("T")
TEMPORARY = "kernel-harness-resident-"
"""What the names of residents' folders for temporary files begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrders:
    """Orders of the parent to the fork server of one device."""

    spec: WorkerSpec
    log: str
    """The file for stdout and stderr while suites and libraries load."""
    temporary: str
    """The pool's folder for temporary files."""
    context: ProcessContext
    """The parent's: of it a zygote that the parent has started needs the working directory alone."""
    modules: tuple[str, ...] = ()
    """What a server imports that emulates the device for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOrders:
    """Orders of the first command to a library's resident."""

    spec: WorkerSpec
    context: ProcessContext
    residence: Residence


class State:
    """The result of loading in this process; every process forked from it inherits it."""

    prepared: Prepared | ChildError | None = None
    loaded: Loaded | ChildError | None = None
    known: Mapping[str, resident.Stamp | None] = MappingProxyType({})
    """The files that a resident has loaded, as they were when it did."""
    changes: EnvironmentChanges | None = None
    """Of a resident, and of what is forked from it; None in the processes of one command."""


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


def start_resident(fds: tuple[int, ...]) -> int:
    """Load the engine, then fork for one command after another; returns the exit status."""
    listener_fd, orders_fd, log_fd = fds
    with os.fdopen(orders_fd, "rb") as file:
        given = json.load(file)
    residence = Residence(**given["residence"])
    listener = socket.socket(fileno=listener_fd)
    resident.take_over(listener)
    os.setsid()
    os.chdir("/")  # the folder of a command may hold modules
    _print_to(log_fd)
    faulthandler.enable()
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
    before, state.changes = dict(os.environ), EnvironmentChanges()
    with resident.loading(residence):
        state.prepared = _or_error(lambda: prepare(given["engine"]))
        wire.warm_up()
    state.changes.note(before)
    return _reside(listener, residence, state.prepared, ())


def start_library(fds: tuple[int, ...]) -> int:
    """In a process forked from an engine's resident: load suites and libraries, then fork servers of the device."""
    listener_fd, orders_fd = fds
    with os.fdopen(orders_fd, "rb") as file:
        orders = wire.from_json(file.read(), LibraryOrders)
    listener = socket.socket(fileno=listener_fd)
    resident.take_over(listener)
    prepared = state.prepared
    os.setsid()
    if not isinstance(prepared, Prepared):  # each child of it reports why
        state.loaded = prepared
        return _reside(listener, orders.residence, prepared, ())
    assert state.changes is not None
    state.changes.assume(orders.context)
    tempfile.tempdir = None
    temporary = OwnedFolder(Path(tempfile.gettempdir()), TEMPORARY)
    _use_for_temporary_files(str(temporary.path))
    before = dict(os.environ)
    with resident.loading(orders.residence):
        state.prepared = replace(prepared, server=os.getpid())
        state.loaded = _or_error(lambda: load(orders.spec, prepared))
    state.changes.note(before)
    suites = (Path(located(suite, Path(orders.spec.project))) for suite in orders.spec.suites)
    try:
        return _reside(listener, orders.residence, state.loaded, suites)
    finally:
        temporary.remove()


def _reside(listener: socket.socket, residence: Residence, loaded: object, files: Iterable[Path]) -> int:
    """Serve as a resident.

    One that could load nothing serves those alone who wait for it: they report why.  So does one of which a file has
    changed meanwhile.
    """
    state.known = {**resident.stamps(files), **state.known}  # what was inherited may have changed since it was loaded
    loop = resident.ResidentLoop(listener, residence, state.known)
    if isinstance(loaded, ChildError) or resident.have_changed_while_loading(state.known, residence):
        loop.close_after_waiting()
    loop.run()
    return 0


def start_emulator(fds: tuple[int, ...]) -> int:
    """Emulate the device and import modules, then fork device servers until the parent is gone."""
    control, orders = _begun(fds)
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
    control, orders = _begun(fds)
    match state.prepared:
        case Prepared(server=server) if isinstance(state.loaded, Loaded):  # by a library's resident
            linux.die_with(server)
            _settle(orders)
            state.loaded = replace(state.loaded, spec=orders.spec, server=os.getpid())
            _print_to(_opened(orders.log))
            linux.outlive_parent()
        case Prepared() if state.loaded is not None:
            _settle(orders)
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
    before = dict(os.environ)
    emulating = emulate(orders.spec, prepared, orders.modules)
    if state.changes is not None:
        state.changes.note(before)
    return emulating


def _settle(orders: DeviceOrders) -> None:
    if state.changes is None:
        os.chdir(orders.context.directory)
    else:
        state.changes.assume(orders.context)
    _use_for_temporary_files(orders.temporary)


def _use_for_temporary_files(folder: str) -> None:
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None  # the zygote's, if anything has asked for it there


def _begun(fds: tuple[int, ...]) -> tuple[socket.socket, DeviceOrders]:
    """Return the control socket and the orders of a server that begins."""
    control_fd, orders_fd = fds
    with os.fdopen(orders_fd, "rb") as file:
        orders = wire.from_json(file.read(), DeviceOrders)
    os.setsid()
    return socket.socket(fileno=control_fd), orders


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
