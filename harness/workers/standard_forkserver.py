"""The seam to the standard library's fork server: the only place that touches private names of `multiprocessing`.

`multiprocessing` has one fork server a process; workers need one for each device profile, hence instances of its
class.  Read with Python 3.11.7, 3.12.1 and 3.13.0; `tests/workers/test_standard_forkserver.py` says when one differs.
The pickles here hold constants of this file; cases and runs never travel this way.
"""

# ruff: noqa: SLF001 — private names are what this file is for

import io
import os
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any, cast

SIGNED: struct.Struct = forkserver.SIGNED_STRUCT
"""How the child's process id, then its exit code, are written on the status pipe."""

PATH_BEFORE = "KERNEL_HARNESS_PYTHONPATH"

_environment = threading.Lock()


class ForkServer(forkserver.ForkServer):
    """A process that imports one module and then forks on request; the first fork starts it, also if it died."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        """`environment` is added to this process's own, for the server; the module is found as it would be here."""
        super().__init__()
        self.set_forkserver_preload([module])
        self._added = {
            **environment,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            PATH_BEFORE: os.environ.get("PYTHONPATH", ""),
        }

    def ensure_running(self) -> None:
        """Start the server unless it runs; every fork comes through here."""
        with _added_to_environment(self._added):
            super().ensure_running()

    def fork(self, main: Callable[[tuple[int, ...]], int], fds: list[int]) -> int:
        """Have `main`, a module's function, run in a new child, given copies of the open files.

        What it returns is the child's exit status.
        Returns the read end of the status pipe.  Nothing here waits for the server.
        """
        status_r, data_w = self.connect_to_new_process(fds)
        preparation, entry = io.BytesIO(), io.BytesIO()
        pickle.dump({}, preparation)
        pickle.dump(_Entry(main), entry)
        try:
            with os.fdopen(data_w, "wb") as data:
                data.write(preparation.getvalue() + entry.getvalue())
        except BrokenPipeError:
            pass  # the server is gone: the status pipe says so too
        return status_r

    @property
    def pid(self) -> int | None:
        """The server's process id, once it was started."""
        return cast("int | None", vars(self)["_forkserver_pid"])

    def stop(self) -> None:
        """Kill the server and reap it."""
        with cast("threading.Lock", vars(self)["_lock"]):
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)
            cast("Any", self)._stop_unlocked()


def put_python_path_back() -> None:
    """In the server: what it starts shall not inherit the path by which it found its own modules."""
    before = os.environ.pop(PATH_BEFORE, "")
    if before:
        os.environ["PYTHONPATH"] = before
    else:
        os.environ.pop("PYTHONPATH", None)


class _Entry:
    """What the fork server's child unpickles and starts, in place of a `multiprocessing.Process`."""

    def __init__(self, main: Callable[[tuple[int, ...]], int]) -> None:
        self._main = main

    def _bootstrap(self, parent_sentinel: int) -> int:
        os.close(parent_sentinel)
        server = cast("Any", forkserver)._forkserver
        os.close(server._forkserver_alive_fd)  # or this child would keep the server alive when the parent is gone
        server._forkserver_alive_fd = None
        tracker = cast("Any", resource_tracker)._resource_tracker
        os.close(tracker._fd)
        tracker._fd = None
        return self._main(tuple(server._inherited_fds))


@contextmanager
def _added_to_environment(added: Mapping[str, str]) -> Generator[None]:
    """The fork server is started with this process's environment and no other: change it, and change it back."""
    with _environment:
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
