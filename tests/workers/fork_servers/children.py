"""Functions that run in fork servers and in their children."""

import os
import signal
import socket
import warnings
from contextlib import suppress
from pathlib import Path

from harness.workers.zygote.fork_loop import serve_forks

orders = ""
"""In a fork server and its children."""


def serve_with_orders(fds: tuple[int, ...]) -> int:
    control_fd, orders_fd = fds
    with os.fdopen(orders_fd) as file:
        globals()["orders"] = file.read()
    warnings.simplefilter("error")
    with socket.socket(fileno=control_fd) as control:
        serve_forks(control)
    return 0


def serve_badly(fds: tuple[int, ...]) -> int:
    del fds
    return 3


def report_orders(fds: tuple[int, ...]) -> int:
    os.write(fds[0], orders.encode())
    return 0


def report_environment(fds: tuple[int, ...]) -> int:
    os.write(fds[0], os.environ["KERNEL_HARNESS_TEST"].encode())
    return 7


def report_process(fds: tuple[int, ...]) -> int:
    """Report whatever a child may inherit by mistake: open files, signal handlers, threads."""
    own = {0, 1, 2, *fds}
    others = [link for fd, link in open_links().items() if fd not in own]
    is_default = signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    takes_ctrl_c = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    threads = len(list(Path("/proc/self/task").iterdir()))
    state = (
        str(Path("/proc/self/fd/0").readlink()),
        others,
        is_default,
        takes_ctrl_c,
        signal.set_wakeup_fd(-1),
        threads,
    )
    os.write(fds[0], repr(state).encode())
    return 0


def open_links() -> dict[int, str]:
    found: dict[int, str] = {}
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the file by which the folder itself was read
            found[int(path.name)] = str(path.readlink())
    return found


def wait_for_ever(fds: tuple[int, ...]) -> int:
    os.write(fds[0], b"ready\n")
    signal.pause()
    return 0


def exit_as_told(fds: tuple[int, ...]) -> int:
    return int(os.read(fds[0], 10))


def kill_itself(fds: tuple[int, ...]) -> int:
    os.kill(os.getpid(), int(os.read(fds[0], 10)))
    return 0


def raise_an_error(fds: tuple[int, ...]) -> int:
    os.dup2(fds[0], 2)
    raise ZeroDivisionError("in a child")
