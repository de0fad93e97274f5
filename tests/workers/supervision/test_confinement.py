"""What a confined process cannot do, and what it still can, each tried in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.workers.supervision import confinement

PROGRAM = """
import ctypes, os, resource, signal, socket, subprocess, sys, threading
from harness.workers.supervision.confinement import confine

inside, outside = sys.argv[1:3]
confine([inside])
parent = os.getppid()
try:
    {attempt}
except OSError as error:
    print(type(error).__name__)
else:
    print("done")
"""
REFUSED = {
    "write a file": "open(outside + '/new', 'w')",
    "append to a file": "open(outside + '/file', 'a')",
    "empty a file": "os.truncate(outside + '/file', 0)",
    "remove a file": "os.remove(outside + '/file')",
    "rename a file": "os.rename(outside + '/file', inside + '/file')",
    "hide a file": "os.chmod(outside + '/file', 0)",
    "date a file": "os.utime(outside + '/file')",
    "make a folder": "os.mkdir(outside + '/folder')",
    "fork": "os.fork()",
    "start a program": "subprocess.Popen(['true'])",
    "replace itself": "os.execv('/bin/true', ['true'])",
    "stop its parent": "os.kill(parent, signal.SIGSTOP)",
    "signal its group": "os.killpg(0, signal.SIGCONT)",
    "open its parent": "os.pidfd_open(parent)",
    "limit its parent": "resource.prlimit(parent, resource.RLIMIT_CPU)",
    "move its parent": "os.sched_setaffinity(parent, {0})",
    "write to its parent": "open(f'/proc/{parent}/mem', 'r+b')",
    "connect": "socket.create_connection(('127.0.0.1', 9), 1)",
    "keep shared memory": "open('/dev/shm/harness-test', 'w')",
}
ALLOWED = {
    "write a file": "open(inside + '/new', 'w').write('x')",
    "signal itself": "os.kill(os.getpid(), 0)",
    "raise a signal": "signal.raise_signal(signal.SIGCONT)",
    "start a thread": "threading.Thread(target=print, args=('', ), kwargs={'end': ''}).start()",
    "write nowhere": "open('/dev/null', 'w').write('x')",
    "know its limits": "resource.getrlimit(resource.RLIMIT_CPU)",
    "keep memory": "os.memfd_create('memory')",
    "read a file": "open(outside + '/file').read()",
}

pytestmark = pytest.mark.skipif(bool(confinement.lacking()), reason="this Linux, or its container, cannot confine")


def outcome(tmp_path: Path, attempt: str) -> str:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("content")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(attempt=attempt), str(inside), str(outside)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outside / "file").read_text() == "content", ended.stderr
    return ended.stdout.strip() or ended.stderr


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED)
def test_a_confined_process_cannot(tmp_path: Path, attempt: str) -> None:
    assert outcome(tmp_path, attempt) == "PermissionError"


@pytest.mark.parametrize("attempt", ALLOWED.values(), ids=ALLOWED)
def test_a_confined_process_can(tmp_path: Path, attempt: str) -> None:
    assert outcome(tmp_path, attempt) == "done"
