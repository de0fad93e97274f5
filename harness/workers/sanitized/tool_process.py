"""A fork server under compute-sanitizer, with what the tool prints and saves: the place of one worker.

The tool saves its records when the last of its processes has ended, and not before.  So a station that has reported
something is ended in order, read, and over.
"""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.cuda.sanitizers.sanitizer_command import Sanitizing, environment
from harness.cuda.sanitizers.sanitizer_log import WITNESS, LiveLog, complaints, lost, records_printed
from harness.cuda.sanitizers.sanitizer_records import accept, read_records
from harness.errors import HarnessError, WorkerError
from harness.model.compute_sanitizer_report import SanitizerRecord, Tool
from harness.workers.folder import PoolFolder
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import linux
from harness.workers.worker import Worker
from harness.workers.zygote.server import WITNESS_LIMIT_S, Server, SharedZygote, Under, named

END_LIMIT_S = 60.0
"""For the tool to write what it kept."""
SOON_S: Mapping[Tool, float] = {Tool.MEMCHECK: 0.0, Tool.RACECHECK: 0.02, Tool.INITCHECK: 0.02, Tool.SYNCCHECK: 0.02}
"""What a case did is printed within so long after its answer: launches were waited for, and the log is local.

Memcheck ends the CUDA context at its first error, so that no case with one completes.
"""
LATE_S = 1.0
"""The same for a case that did not complete."""
LOOK_EVERY_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """What a station that is over had kept."""

    records: tuple[SanitizerRecord, ...]
    incomplete: str
    """Why there may have been more."""


class SanitizerProcess:
    """One run of the tool."""

    def __init__(self, spec: WorkerSpec, sanitizing: Sanitizing, folder: PoolFolder, number: int) -> None:
        self._sanitizing = sanitizing
        self._saved = folder.path / f"sanitizer-{number}.xml"
        self._log = LiveLog(folder.path / f"sanitizer-{number}.log")
        wrapper = folder.path / f"sanitizer-{number}.sh"
        self._write(wrapper, folder.path / f"sanitizer-{number}.log")
        # The GPU is chosen from the start: CUDA's injection may look at it before any worker does.
        under = Under(python=str(wrapper), environment={**environment(sanitizing.tool), **dict(spec.environment)})
        self._ground = SharedZygote(spec.ground, folder, number, under)
        self._server = Server(spec, self._ground, folder, number)
        self._unproven: str | None = None
        self.is_over = False

    def fork(self, number: int) -> Worker:
        """A worker; the first one waits until everything is loaded and the tool has reported a planted mistake.

        Raises:
            HarnessError: as `Server.fork`, and where the tool does not start Python.
        """
        try:
            worker = self._server.fork(number)
        except (HarnessError, ConnectionError):
            pid = self._ground.forks.pid
            has_ended = pid is None or linux.ends(pid, LATE_S)
            self.kill()
            if has_ended:
                said = complaints(self._log.text()) or "it ended at once"
                raise WorkerError(self._does_not_run(said)) from None
            raise
        if self._unproven is None:
            try:
                self._unproven = self._prove()
                self._log.begin()
            except BaseException:
                worker.close()
                raise
        return worker

    def unproven(self, pid: int | None) -> str:
        """Why it is not certain that this process's kernels are instrumented; empty where it is."""
        if self._unproven:
            return self._unproven
        if self._sanitizing.filtered:
            return f"{self._sanitizing.filtered} may leave out kernels or reports of this case"
        maps = Path(f"/proc/{pid}/maps")
        try:
            if self._sanitizing.library in maps.read_text():
                return ""
        except OSError:
            return "the process is gone, and nobody looked whether compute-sanitizer was in it"
        return f"compute-sanitizer's {self._sanitizing.library} is not in the process"

    def has_reported(self, *, patient: bool) -> bool:
        """Whether the tool has reported anything of a case; waits a moment for what is still on its way."""
        deadline = time.monotonic() + (LATE_S if patient else SOON_S[self._sanitizing.tool])
        while not self._log.reported():
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def end(self) -> ToolReport:
        """End every process in order, and read what the tool has saved.  Its workers are closed before."""
        self.is_over = True
        self._server.close()
        has_ended = self._ground.forks.end(END_LIMIT_S)
        printed = self._log.text()
        saved = read_records(self._saved.read_text(errors="replace")) if self._saved.exists() else None
        if saved is None or (saved.cut and not saved.records):
            why = "wrote no XML" if has_ended else f"did not end within {END_LIMIT_S:g} s"
            records, incomplete = records_printed(printed), f"compute-sanitizer {why}: these are its printed lines"
        else:
            records = tuple(record for record in saved.records if not record.at.kernel.startswith(WITNESS))
            incomplete = "compute-sanitizer's XML breaks off" if saved.cut else ""
        if not incomplete and (more := lost(printed)):
            incomplete = f"{more} more reports of compute-sanitizer were not kept"
        return ToolReport(
            records=accept(records, self._sanitizing.tool, self._sanitizing.suppressions), incomplete=incomplete
        )

    def kill(self) -> None:
        """End every process at once; what the tool has kept is lost."""
        self.is_over = True
        self._server.close()
        self._ground.dismiss()
        pid = self._ground.forks.pid
        for process in _tree(pid) if pid is not None else ():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._ground.close()

    def _prove(self) -> str:
        if self._sanitizing.tool is Tool.SYNCCHECK:
            return ""  # what it looks for may hang: that the tool is in the process must do
        failure = self._ground.run_once(named(self._sanitizing.witness), WITNESS_LIMIT_S)
        deadline = time.monotonic() + LATE_S
        while not self._log.testified():
            if failure or time.monotonic() >= deadline:
                said = failure or complaints(self._log.text()) or "nothing was printed"
                return f"{self._sanitizing.tool} did not report a mistake that was made on purpose: {said}"
            time.sleep(LOOK_EVERY_S)
        return ""

    def _write(self, wrapper: Path, log: Path) -> None:
        command = (*self._sanitizing.command, "--xml", "--save", str(self._saved), "--log-file", str(log))
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join((*command, sys.executable))} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o700)

    def _does_not_run(self, said: str) -> str:
        alone = shlex.join((*self._sanitizing.command, sys.executable, "-c", "import torch; torch.zeros(1).cuda()"))
        return (
            f"compute-sanitizer {self._sanitizing.version} does not run Python here: {said}. Another release of it "
            f"may, or a newer driver; to see it alone: {alone}"
        )


def _tree(pid: int) -> list[psutil.Process]:
    """A process and all that descends from it, the process last."""
    try:
        root = psutil.Process(pid)
        return [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return []
