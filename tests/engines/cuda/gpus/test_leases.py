"""Leases of GPUs between processes, which end with their process."""

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

from harness.engines.cuda.gpus.leases import holder, lease, leases_folder
from harness.errors import GpuUnavailable, HarnessError, UsageError
from harness.settings import Settings
from tests.engines.cuda.samples import several

ROOT = Path(__file__).resolve().parents[4]
TWO = several(2)
HOLDING = """
import sys
from pathlib import Path

from harness.engines.cuda.gpus.leases import lease
from tests.engines.cuda.samples import several

with lease(several(2), wanted=int(sys.argv[1]), wait_s=float(sys.argv[2]), folder=Path(sys.argv[3])) as leased:
    print(*(gpu.uuid for gpu in leased), flush=True)
    sys.stdin.read()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return leases_folder(Settings(leases=tmp_path / "leases"))


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start a process that leases GPUs, prints them, and holds them until its input ends."""
    with ExitStack() as stack:

        def begin(wanted: int, wait_s: float = 0) -> subprocess.Popen[str]:
            child = subprocess.Popen(
                [sys.executable, "-c", HOLDING, str(wanted), str(wait_s), str(folder)],
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


def printed_by(child: subprocess.Popen[str]) -> list[str]:
    assert child.stdout is not None
    return child.stdout.readline().split()


def test_two_processes_get_different_gpus_and_the_error_names_them(start: Start, folder: Path) -> None:
    other = start(1)
    assert printed_by(other) == [TWO[0].uuid]
    with lease(TWO, wanted=1, wait_s=0, folder=folder) as ours:
        assert ours == (TWO[1],)
        with (
            pytest.raises(
                GpuUnavailable, match=rf"is held by process {other.pid} \(\S+ -c import sys from .*; wait for them"
            ),
            lease(TWO, wanted=1, wait_s=0, folder=folder),
        ):
            pass
        assert holder(TWO[0], folder).startswith(f"process {other.pid} (")
    assert holder(TWO[1], folder) == ""


def test_a_lease_ends_with_its_process(start: Start, folder: Path) -> None:
    other = start(2)
    assert printed_by(other) == [gpu.uuid for gpu in TWO]
    other.send_signal(signal.SIGKILL)
    other.wait()
    with lease(TWO, wanted=2, wait_s=0, folder=folder) as ours:
        assert ours == TWO


def test_a_waiting_process_gets_a_released_gpu(start: Start, folder: Path) -> None:
    with lease(TWO, wanted=2, wait_s=0, folder=folder):
        waiting = start(2, wait_s=60)
        started = start(1, wait_s=0)
        assert started.wait() == 1  # by now the first has been waiting, or is about to
    assert printed_by(waiting) == [gpu.uuid for gpu in TWO]


def test_too_few_free_gpus_are_not_leased(start: Start, folder: Path) -> None:
    other = start(1)
    printed_by(other)
    with pytest.raises(GpuUnavailable, match="2 GPUs are wanted"), lease(TWO, wanted=2, wait_s=0.2, folder=folder):
        pass
    with lease(TWO, wanted=1, wait_s=0, folder=folder) as ours:
        assert ours == (TWO[1],)


def test_a_lease_is_released_when_its_block_fails(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), lease(TWO, wanted=2, wait_s=0, folder=folder):
        raise ZeroDivisionError
    with lease(TWO, wanted=2, wait_s=0, folder=folder) as ours:
        assert ours == TWO


@pytest.mark.parametrize("wanted", [0, 3])
def test_the_number_of_gpus_must_be_available(wanted: int, folder: Path) -> None:
    with (
        pytest.raises(UsageError, match=f"{wanted} GPUs are wanted, and this machine offers 1 to 2"),
        lease(TWO, wanted=wanted, wait_s=0, folder=folder),
    ):
        pass


def test_the_folder_in_temporary_files_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"kernel-harness-gpus-{os.getuid()}"
    folder.mkdir(mode=0o777)
    assert leases_folder(Settings()) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="belongs to another user: export HARNESS_LEASES="):
        leases_folder(Settings())
    assert leases_folder(Settings(runtime=tmp_path)) == tmp_path / "kernel-harness-gpus"


def test_a_chosen_folder_keeps_its_permissions(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(0o1777)
    assert leases_folder(Settings(leases=folder)) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert leases_folder(Settings(leases=link)) == link
    file = tmp_path / "file"
    file.touch()
    for wrong in (file, Path("/proc/nope")):
        with pytest.raises(UsageError, match=f"HARNESS_LEASES={wrong}"):
            leases_folder(Settings(leases=wrong))
