"""A fork server runs functions in children, reports how they end, and ends with its owner."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil

from harness.workers.fork_servers.fork_server import ForkedServer, ForkServer, StartedServer
from harness.workers.supervision import linux
from harness.workers.supervision.child_status import ChildStatus
from harness.workers.zygote.fork_loop import has_owner
from tests.workers.conftest import open_files
from tests.workers.fork_servers.children import (
    exit_as_told,
    kill_itself,
    raise_an_error,
    report_environment,
    report_orders,
    report_process,
    serve_badly,
    serve_with_orders,
    wait_for_ever,
)
from tests.workers.setting import DEADLINE_S, MARK, ROOT, processes_marked, survivors


@contextmanager
def started(environment: Mapping[str, str] | None = None) -> Generator[StartedServer]:
    server = StartedServer(serve_with_orders, b"its orders", environment or {})
    try:
        yield server
    finally:
        stop(server)


@contextmanager
def forked() -> Generator[tuple[StartedServer, ForkedServer]]:
    with started() as origin:
        server = ForkedServer(origin, serve_with_orders, b"other orders")
        try:
            yield origin, server
        finally:
            stop(server)


def stop(server: ForkServer) -> None:
    pid = server.pid
    process = psutil.Process(pid) if pid is not None and psutil.pid_exists(pid) else None
    server.stop()
    assert process is None or psutil.wait_procs([process], timeout=DEADLINE_S)[1] == []
    assert server.pid is None


def child_of(server: ForkServer, main: Callable[[tuple[int, ...]], int], given: bytes = b"") -> tuple[str, ChildStatus]:
    """What a child writes, and its status once that is final.  The child can read what it is given."""
    ours, theirs = socket.socketpair()
    ours.sendall(given)
    status = ChildStatus(server.fork(main, [theirs.fileno()]))
    theirs.close()
    with ours, ours.makefile() as file:
        text = file.read()
    while not status.is_final:
        status.read(DEADLINE_S)
    status.close()
    return text, status


def test_a_child_has_the_environment_of_the_server_alone() -> None:
    with started({"KERNEL_HARNESS_TEST": "seen by the server"}) as server:
        text, status = child_of(server, report_environment)
    assert (text, status.exit_code) == ("seen by the server", 7)
    assert status.pid is not None
    assert not psutil.pid_exists(status.pid)
    assert "KERNEL_HARNESS_TEST" not in os.environ


def test_the_exit_status_of_a_child_is_reported() -> None:
    with started() as server:
        for code in (0, 1, 99, 255):
            assert child_of(server, exit_as_told, str(code).encode())[1].exit_code == code


def test_the_signal_that_ended_a_child_is_reported() -> None:
    with started() as server:
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGRTMIN + 3):
            assert child_of(server, kill_itself, str(int(number)).encode())[1].exit_code == -number
        # SIGINT becomes an exception, as in any Python.
        assert child_of(server, kill_itself, str(int(signal.SIGINT)).encode())[1].exit_code == 1


def test_an_exception_of_a_child_is_printed_and_its_status_is_one() -> None:
    with started() as server:
        text, status = child_of(server, raise_an_error)
    assert "ZeroDivisionError: in a child" in text
    assert status.exit_code == 1


def test_a_child_inherits_no_files_handlers_or_threads_of_its_servers() -> None:
    with forked() as (origin, server):
        assert child_of(server, report_orders)[0] == "other orders"
        for one in (origin, server):
            with running_child(one):
                text, _ = child_of(one, report_process)
            assert text == repr(("/dev/null", [], True, True, -1, 1))


@contextmanager
def running_child(server: ForkServer) -> Generator[int]:
    read_fd, write_fd = os.pipe()
    status = ChildStatus(server.fork(wait_for_ever, [write_fd]))
    os.close(write_fd)
    assert os.read(read_fd, 6) == b"ready\n"
    os.close(read_fd)
    while status.pid is None:
        status.read(DEADLINE_S)
    yield status.pid
    with suppress(ProcessLookupError):
        os.kill(status.pid, signal.SIGKILL)
    while not status.is_final:
        status.read(DEADLINE_S)
    status.close()


def test_many_children_of_many_threads_are_all_reported() -> None:
    with started() as server, ThreadPoolExecutor(8) as threads:
        statuses = threads.map(lambda code: child_of(server, exit_as_told, str(code).encode())[1], range(100))
        assert [status.exit_code for status in statuses] == list(range(100))
        assert server.pid is not None
        assert psutil.Process(server.pid).children() == []  # no zombie either


def test_two_started_servers_are_two_processes() -> None:
    with started() as one, started() as two:
        assert [child_of(server, report_orders)[0] for server in (one, two)] == ["its orders"] * 2
        assert one.pid != two.pid
        stop(one)
        assert child_of(two, report_orders)[0] == "its orders"


def test_a_started_server_that_was_killed_is_started_again() -> None:
    with started() as server:
        for _ in range(3):
            assert child_of(server, report_orders)[0] == "its orders"
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            assert linux.ends(server.pid, DEADLINE_S)


def test_a_forked_server_that_was_killed_is_forked_again() -> None:
    with forked() as (_, server):
        for _ in range(2):
            assert child_of(server, report_orders)[0] == "other orders"
            assert server.pid is not None
            process = psutil.Process(server.pid)
            process.kill()
            process.wait(DEADLINE_S)


def test_a_forked_server_is_forked_again_after_its_origin_was_stopped() -> None:
    with forked() as (origin, server):
        assert child_of(server, report_orders)[0] == "other orders"
        first = server.pid
        assert first is not None
        process = psutil.Process(first)
        origin.stop()
        assert child_of(server, report_orders)[0] == "other orders"  # nobody could report how the first one ends
        assert server.pid not in {first, None}
        assert psutil.wait_procs([process], timeout=DEADLINE_S)[1] == []


def test_children_that_were_running_are_orphaned_when_their_server_is_killed() -> None:
    with started() as server:
        read_fd, write_fd = os.pipe()
        status = ChildStatus(server.fork(wait_for_ever, [write_fd]))
        os.close(write_fd)
        assert os.read(read_fd, 6) == b"ready\n"
        os.close(read_fd)
        while status.pid is None:  # the server reports it after the fork, perhaps later than the child is ready
            status.read(DEADLINE_S)
        stop(server)
        while not status.is_final:
            status.read(DEADLINE_S)
        status.close()
        assert status.exit_code is None
        os.kill(status.pid, signal.SIGKILL)


def test_a_server_that_ends_at_once_is_an_error_or_an_orphan() -> None:
    server = StartedServer(serve_badly, b"", {})
    for _ in range(3):
        try:
            _, status = child_of(server, report_orders)
        except ConnectionError:
            continue
        assert (status.pid, status.exit_code) == (None, None)
    stop(server)


def test_a_server_ends_by_itself_when_it_is_asked_to() -> None:
    with started() as server:
        assert child_of(server, report_orders)[0] == "its orders"
        assert server.pid is not None
        process = psutil.Process(server.pid)
        assert server.end(DEADLINE_S)
        assert not process.is_running()
        assert server.end(DEADLINE_S)


def test_a_server_that_does_not_end_in_time_is_killed() -> None:
    with started() as server:
        assert child_of(server, report_orders)[0] == "its orders"
        assert server.pid is not None
        process = psutil.Process(server.pid)
        process.suspend()
        assert not server.end(0.2)
        assert not process.is_running()


def test_stopping_leaves_no_open_file() -> None:
    before = open_files()
    with forked() as (_, server):
        child_of(server, report_orders)
    assert open_files() == before


def test_a_server_that_lost_its_owner_serves_no_queued_request() -> None:
    with started() as server:
        assert child_of(server, report_orders)[0] == "its orders"
        process = psutil.Process(server.pid)
        process.suspend()
        status = ChildStatus(server.fork(report_orders, []))
        assert server._control is not None
        server._control.shutdown(socket.SHUT_RDWR)
        process.resume()
        while not status.is_final:
            status.read(DEADLINE_S)
        status.close()
        assert (status.pid, status.exit_code) == (None, None)


def test_an_owner_is_noticed_to_be_gone_though_a_request_is_queued() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(ours, [b"module:main"], [0])
        assert has_owner(theirs)
        ours.close()
        assert not has_owner(theirs)


def test_two_levels_of_servers_and_their_children_end_with_a_killed_owner(mark: str) -> None:
    program = (
        "import sys; from tests.workers.fork_servers.test_fork_server import forked, running_child\n"
        "with forked() as (origin, server), running_child(origin), running_child(server):\n"
        "    print('ready', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        children = [process for process in processes_marked(mark) if is_child(process)]
        assert len(processes_marked(mark)) == 5
        owner.kill()
    for child in children:  # these functions have no death signal: they are not workers
        child.kill()
    assert survivors(os.environ[MARK]) == []


def is_child(process: psutil.Process) -> bool:
    return process.children() == []
