"""Threads of a watched program: torch's modes are theirs while they run."""

import threading

import pytest

from harness.engines.torch.cpu_tensors import CpuTensors
from harness.engines.torch.torch_seam import OperatorMode, active_modes
from harness.watched.program_threads import emulate_on_every_thread


class Ending(threading.Thread):
    """A thread that notes how many modes are active on it while it runs, and when Python is done with it."""

    def run(self) -> None:
        self.running = active_modes()

    def _delete(self) -> None:
        self.ended = active_modes()
        super()._delete()  # pyright: ignore[reportAttributeAccessIssue]


def enter_modes() -> None:
    CpuTensors().__enter__()
    OperatorMode().__enter__()


def test_a_thread_leaves_the_modes_of_torch_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    emulate_on_every_thread(enter_modes)
    thread = Ending()
    thread.start()
    thread.join()
    assert (thread.running, thread.ended) == ((1, 1), (0, 0))
