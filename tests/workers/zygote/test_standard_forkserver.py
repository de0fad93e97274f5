"""The private names of `multiprocessing` that the seam touches: a Python that changes one of them is named here."""

import inspect
import os
import sys
from multiprocessing import connection, forkserver, resource_tracker, spawn, util

import psutil

from harness.workers.zygote.standard_forkserver import SIGNED, ForkedServer, ForkServer, serve_forks
from tests.workers.setting import DEADLINE_S

THIS_PYTHON = f"Python {sys.version.split()[0]} changed what harness/workers/zygote/standard_forkserver.py relies on"


def test_this_python_has_the_fork_server_that_the_seam_was_written_for() -> None:
    server = forkserver.ForkServer()
    assert {"_forkserver_pid", "_forkserver_alive_fd", "_inherited_fds", "_lock"} <= set(vars(server)), THIS_PYTHON
    assert {"_stop_unlocked", "ensure_running", "connect_to_new_process"} <= set(dir(server)), THIS_PYTHON
    assert hasattr(forkserver, "_forkserver"), THIS_PYTHON
    assert hasattr(resource_tracker, "_resource_tracker"), THIS_PYTHON
    assert forkserver.SIGNED_STRUCT.format == "q", THIS_PYTHON
    assert list(inspect.signature(forkserver.main).parameters)[:3] == ["listener_fd", "alive_r", "preload"], THIS_PYTHON
    assert hasattr(connection, "arbitrary_address"), THIS_PYTHON
    assert hasattr(util, "is_abstract_socket_namespace"), THIS_PYTHON


def test_this_python_starts_a_child_from_two_pickles_and_calls_its_bootstrap() -> None:
    source = inspect.getsource(spawn._main)
    assert source.count("reduction.pickle.load(from_parent)") == 2, THIS_PYTHON
    assert "self._bootstrap(parent_sentinel)" in source, THIS_PYTHON


def test_a_fork_server_imports_its_module_and_forks_children_that_run_a_function() -> None:
    server = ForkServer("this", {"KERNEL_HARNESS_TEST": "seen by the server"})
    read_fd, write_fd = os.pipe()
    status_fd = server.fork(tell_environment, [write_fd])
    os.close(write_fd)
    with os.fdopen(read_fd) as told, os.fdopen(status_fd, "rb") as status:
        assert told.read() == "seen by the server"
        pid, code = SIGNED.iter_unpack(status.read())
        assert (psutil.pid_exists(pid[0]), code) == (False, (7,))
    assert "KERNEL_HARNESS_TEST" not in os.environ
    stop(server)


def test_two_fork_servers_are_two_processes_and_stop_alone() -> None:
    servers = [ForkServer("this", {}) for _ in range(2)]
    for server in servers:
        server.ensure_running()
    assert len({server.pid for server in servers} - {None}) == 2
    for server in servers:
        stop(server)


def test_a_fork_server_can_be_forked_from_another_and_outlives_it_until_it_is_stopped() -> None:
    origin = ForkServer("this", {})
    server = ForkedServer(origin, serve_with_orders, b"its orders")
    assert told_by_a_child(server) == "its orders"
    first = server.pid
    origin.stop()
    assert told_by_a_child(server) == "its orders"  # forked anew: nobody could say how the other ends
    assert server.pid not in {first, None}
    stop(server)
    origin.stop()


def test_a_fork_server_that_was_killed_is_forked_anew() -> None:
    origin = ForkServer("this", {})
    server = ForkedServer(origin, serve_with_orders, b"its orders")
    for _ in range(2):
        assert told_by_a_child(server) == "its orders"
        assert server.pid is not None
        process = psutil.Process(server.pid)
        process.kill()
        process.wait(DEADLINE_S)
    server.stop()
    origin.stop()


def told_by_a_child(server: ForkServer) -> str:
    read_fd, write_fd = os.pipe()
    status_fd = server.fork(tell_orders, [write_fd])
    os.close(write_fd)
    with os.fdopen(read_fd) as told, os.fdopen(status_fd, "rb"):
        return told.read()


orders = ""
"""In a forked server and its children."""


def serve_with_orders(fds: tuple[int, ...]) -> int:
    listener_fd, alive_fd, orders_fd = fds
    with os.fdopen(orders_fd) as file:
        globals()["orders"] = file.read()
    serve_forks(listener_fd, alive_fd)
    return 0


def tell_orders(fds: tuple[int, ...]) -> int:
    os.write(fds[0], orders.encode())
    return 0


def tell_environment(fds: tuple[int, ...]) -> int:
    os.write(fds[0], os.environ["KERNEL_HARNESS_TEST"].encode())
    return 7


def stop(server: ForkServer) -> None:
    assert server.pid is not None
    process = psutil.Process(server.pid)
    server.stop()
    assert psutil.wait_procs([process], timeout=DEADLINE_S)[1] == []
    assert server.pid is None
