"""`harness.run` in Python: checks the launches of a block of code or of a function, in this process."""

import importlib
from contextlib import ContextDecorator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness import catalogue
from harness.errors import UsageError
from harness.model.device import DeviceProfile
from harness.project_settings import read_project_settings
from harness.search import USUAL_DEVICE
from harness.suite_files import project_of
from harness.watched.command_process import watch_plan
from harness.watched.watch_records import RecordFiles, read_checks, read_failures, read_uncompiled
from harness.watched.watch_report import Seen, WatchedCommand, findings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.finding import Finding
    from harness.watched.block_emulation import BlockEmulation


class _Process:
    """The GPU that the blocks of this process emulate, once there was one."""

    device: DeviceProfile | None = None
    emulation: "BlockEmulation"


def run(device: str = "", *, sm: int | None = None) -> "WatchedBlock":
    """Return a context manager that checks the Triton launches of a block, as on an emulated GPU.

    It also decorates a function, such as a test.  The process emulates the GPU inside the blocks alone.  Libraries read
    the device when they are imported: import them inside the block.

    Args:
        device: the GPU, by its name in `harness devices`; by default the first of the project's, or else an H200.
        sm: another number of SMs.

    Raises:
        UsageError: there is no such device, or it cannot have so many SMs.
    """
    names = device or read_project_settings(project_of(Path.cwd())).device or USUAL_DEVICE
    profile, *rest = catalogue.find_all(names, sm_count=sm)
    if rest and device:
        raise UsageError(f"{device} names {1 + len(rest)} GPUs: a block runs on one")
    return WatchedBlock(profile)


class WatchedBlock(ContextDecorator):
    """A block of code whose launches are checked."""

    def __init__(self, device: DeviceProfile) -> None:
        self.device = device
        self.findings: tuple[Finding, ...] = ()
        """What the launches of the block showed; there when the block has ended."""
        self.launches = 0
        """The number of launches that were checked."""
        self.uncompiled: Mapping[str, int] = {}
        """The number of programs of `torch.compile` that ran uncompiled, by reason."""

    def __enter__(self) -> Self:
        """Begin to record launches.

        Raises:
            UsageError: this process emulates another GPU, or is watched already.
        """
        recorder = self._attached().recorder
        self._folder = TemporaryDirectory(prefix="harness-run-")
        recorder.record_to(RecordFiles(Path(self._folder.name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _Process.emulation.recorder.write()
        _Process.emulation.recorder.record_to(None)
        _Process.emulation.leave()
        with self._folder as name:
            seen = Seen(checks=read_checks(Path(name)), failures=read_failures(Path(name)))
            self.uncompiled = read_uncompiled(Path(name))
        command = WatchedCommand(words=("python",), device=self.device, options=())
        self.findings = tuple(watched.finding for watched in findings_of(seen, command))
        self.launches = seen.launches

    def __str__(self) -> str:
        """Return a line for each finding."""
        lines = (f"{finding.severity} {finding.fail.signature}: {finding.fail.message}" for finding in self.findings)
        return "\n".join(lines) or "no findings"

    def _attached(self) -> "BlockEmulation":
        if _Process.device is None:
            emulation = importlib.import_module("harness.watched.block_emulation").BlockEmulation
            _Process.emulation = emulation(watch_plan(self.device))
            _Process.device = self.device
        elif _Process.device != self.device:
            raise UsageError(f"this process emulates {_Process.device}: check {self.device} in another process")
        else:
            _Process.emulation.enter()
        return _Process.emulation
