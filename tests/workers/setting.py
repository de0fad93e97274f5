"""A device, cases of the mischievous suite, and the processes that a test started."""

import os
import select
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from harness.model.case import Case, DType
from harness.model.device import Architecture, DeviceProfile
from harness.workers.spec import WorkerSpec

ROOT = Path(__file__).resolve().parents[2]
MISCHIEF = str(Path(__file__).with_name("mischief.py"))
MARK = "MISCHIEF_MARK"
DEADLINE_S = 30.0

DEVICE = DeviceProfile(
    slug="b200",
    name="NVIDIA B200",
    architecture=Architecture.BLACKWELL,
    capability=(10, 0),
    sm_count=148,
    shared_bytes_per_block=232448,
    shared_bytes_per_sm=233472,
    l2_bytes=132644864,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    memory_bytes=191_000_000_000,
    sm_clock_khz=1965000,
    memory_clock_khz=3996000,
    memory_bus_bits=8192,
    source="a literal for tests",
)


def case(op: str, rows: int = 3, *, device: DeviceProfile = DEVICE, suite: str = MISCHIEF) -> Case:
    return Case(op=f"{suite}:{op}", dims={"rows": rows}, dtype=DType.FP32, device=device)


def specs(scratch: Path, **changes: object) -> Callable[[DeviceProfile], WorkerSpec]:
    plain = WorkerSpec(
        device=DEVICE,
        suites=(MISCHIEF,),
        scratch=str(scratch),
        engine="tests.workers.engines:Calling",
        memory_limit_bytes=1 << 28,
    )
    return lambda device: replace(plain, device=device, **changes)


def processes_marked(mark: str) -> list[psutil.Process]:
    """Every process with this mark in its environment."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def survivors(mark: str) -> list[str]:
    """The processes with this mark that are alive after all had time to end."""
    return _alive_after_waiting(processes_marked(mark))


def survivors_besides_the_shared_zygote(mark: str) -> list[str]:
    """The same without the shared zygote, the only child that a parent starts itself."""
    return _alive_after_waiting([process for process in processes_marked(mark) if process.ppid() != os.getpid()])


def _alive_after_waiting(processes: list[psutil.Process]) -> list[str]:
    _, alive = psutil.wait_procs(processes, timeout=DEADLINE_S)
    return [str(process) for process in alive]


class Fifo:
    """A named pipe on which a case reports what it is doing."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def read(self) -> str:
        deadline = time.monotonic() + DEADLINE_S
        text = b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self._fd], [], [], deadline - time.monotonic())
            assert ready, "no case reported anything"
            text += os.read(self._fd, 4096)
        return text.decode()

    def close(self) -> None:
        os.close(self._fd)
