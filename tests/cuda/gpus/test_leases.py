"""Leases of GPUs between real processes: who gets which, who is told, and that a lease dies with its process."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cuda.gpus.leases import FOLDER, holder, lease, leases_folder
from harness.errors import GpuUnavailable, HarnessError, UsageError
from tests.cuda.samples import several

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[3]
TWO = several(2)
HOLDING = """
import sys
from harness.cuda.gpus.leases import lease
from tests.cuda.samples import several

with lease(several(2), wanted=int(sys.argv[1]), wait_s=float(sys.argv[2])) as leased:
    print(*(gpu.uuid for gpu in leased), flush=True)
    sys.stdin.read()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path / "leases"))
    return tmp_path / "leases"


@pytest.fixture
def start() -> Iterator[Start]:
    """Another process that leases, says which, and holds them until its input ends."""
    with ExitStack() as stack:

        def begin(wanted: int, wait_s: float = 0) -> subprocess.Popen[str]:
            child = subprocess.Popen(
                [sys.executable, "-c", HOLDING, str(wanted), str(wait_s)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            stack.enter_context(child)
            stack.callback(child.kill)
            return child

        yield begin


def said_by(child: subprocess.Popen[str]) -> list[str]:
    assert child.stdout is not None
    return child.stdout.readline().split()


def test_two_processes_get_different_gpus_and_a_third_is_told_who_has_them(start: Start) -> None:
    other = start(1)
    assert said_by(other) == [TWO[0].uuid]
    with lease(TWO, wanted=1, wait_s=0) as ours:
        assert ours == (TWO[1],)
        with (
            pytest.raises(
                GpuUnavailable, match=rf"is held by process {other.pid} \(\S+ -c import sys from .*; wait for them"
            ),
            lease(TWO, wanted=1, wait_s=0),
        ):
            pass
        assert holder(TWO[0]).startswith(f"process {other.pid} (")
    assert holder(TWO[1]) == ""


def test_a_lease_dies_with_its_process(start: Start) -> None:
    other = start(2)
    assert said_by(other) == [gpu.uuid for gpu in TWO]
    other.send_signal(signal.SIGKILL)
    other.wait()
    with lease(TWO, wanted=2, wait_s=0) as ours:
        assert ours == TWO


def test_who_waits_gets_the_gpu_when_it_is_let_go(start: Start) -> None:
    with lease(TWO, wanted=2, wait_s=0):
        waiting = start(2, wait_s=60)
        started = start(1, wait_s=0)
        assert started.wait() == 1  # by now the first has been waiting, or is about to
    assert said_by(waiting) == [gpu.uuid for gpu in TWO]


def test_too_few_free_gpus_are_left_to_others(start: Start) -> None:
    other = start(1)
    said_by(other)
    with pytest.raises(GpuUnavailable, match="2 GPUs are wanted"), lease(TWO, wanted=2, wait_s=0.2):
        pass
    with lease(TWO, wanted=1, wait_s=0) as ours:
        assert ours == (TWO[1],)


def test_a_lease_is_let_go_when_its_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), lease(TWO, wanted=2, wait_s=0):
        raise ZeroDivisionError
    with lease(TWO, wanted=2, wait_s=0) as ours:
        assert ours == TWO


@pytest.mark.parametrize("wanted", [0, 3])
def test_no_gpus_and_more_than_there_are_make_no_sense(wanted: int) -> None:
    with (
        pytest.raises(UsageError, match=f"{wanted} GPUs are wanted, and this machine offers 1 to 2"),
        lease(TWO, wanted=wanted, wait_s=0),
    ):
        pass


def test_the_folder_for_temporary_files_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"kernel-harness-gpus-{os.getuid()}"
    folder.mkdir(mode=0o777)
    assert leases_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="belongs to somebody else: export HARNESS_LEASES="):
        leases_folder()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert leases_folder() == tmp_path / "kernel-harness-gpus"


def test_a_folder_of_the_users_choice_is_left_as_it_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    folder.chmod(0o1777)
    assert leases_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    link = tmp_path / "link"
    link.symlink_to(folder)
    monkeypatch.setenv(FOLDER, str(link))
    assert leases_folder() == link
    file = tmp_path / "file"
    file.touch()
    for wrong in (file, Path("/proc/nope")):
        monkeypatch.setenv(FOLDER, str(wrong))
        with pytest.raises(UsageError, match=f"HARNESS_LEASES={wrong}"):
            leases_folder()
