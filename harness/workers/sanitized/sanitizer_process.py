"""One run of compute-sanitizer: a shared zygote and a device server under the tool, and what it prints and saves.

The tool saves its records when the last of its processes has ended, and not before.  So a run that has reported
something is ended in order, read, and not used again.  One worker at a time uses a run.
"""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing, environment
from harness.engines.cuda.sanitizers.sanitizer_log import (
    SELF_TEST_KERNEL,
    LiveLog,
    count_not_printed,
    records_printed,
    tool_errors,
)
from harness.engines.cuda.sanitizers.sanitizer_records import mark_accepted, read_records
from harness.errors import HarnessError, WorkerError
from harness.model.compute_sanitizer_report import SanitizerRecord, Tool
from harness.workers.folder import PoolFolder
from harness.workers.fork_servers.device_server import SELF_TEST_LIMIT_S, DeviceServer
from harness.workers.sanitized.wrapped_zygote import WrappedZygote
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import linux
from harness.workers.worker import Worker
from harness.workers.zygote.fork_loop import imported

END_LIMIT_S = 60.0
"""For the tool to write what it kept."""
SOON_S: Mapping[Tool, float] = {Tool.MEMCHECK: 0.0, Tool.RACECHECK: 0.02, Tool.INITCHECK: 0.02, Tool.SYNCCHECK: 0.02}
"""How long after an answer the tool may still print what the case did.  Launches were waited for, the log is local.

Memcheck ends the CUDA context at its first error, so that no case with one completes.
"""
LATE_S = 1.0
"""The same for a case that did not complete."""
POLL_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """The records that a run of the tool had kept at its end."""

    records: tuple[SanitizerRecord, ...]
    incomplete: str
    """Why there may have been more; empty if the records are complete."""


class SanitizerProcess:
    """One run of the tool."""

    def __init__(self, spec: WorkerSpec, sanitizing: Sanitizing, folder: PoolFolder, number: int) -> None:
        self._sanitizing = sanitizing
        self._saved = folder.path / f"sanitizer-{number}.xml"
        self._log = LiveLog(folder.path / f"sanitizer-{number}.log")
        script = folder.path / f"sanitizer-{number}.sh"
        self._write(script, folder.path / f"sanitizer-{number}.log")
        # The GPU is chosen from the start: CUDA's injection library may open it before any worker does.
        variables = {**environment(sanitizing.tool), **dict(spec.environment)}
        self._zygote = WrappedZygote(spec.engine, str(script), variables)
        self._server = DeviceServer(spec, self._zygote, folder, number)
        self._unproven: str | None = None
        """The result of the self-test; None before it."""
        self.is_over = False

    def fork(self, number: int) -> Worker:
        """A worker; the first one waits until everything is loaded and the tool has reported a planted mistake.

        Raises:
            HarnessError: as `DeviceServer.fork`, and where the tool does not start Python.
        """
        try:
            worker = self._server.fork(number)
        except (HarnessError, ConnectionError):
            pid = self._zygote.pid
            has_ended = pid is None or linux.ends(pid, LATE_S)
            self.kill()
            if has_ended:
                problem = tool_errors(self._log.text()) or "it ended at once"
                raise WorkerError(self._does_not_run(problem)) from None
            raise
        if self._unproven is None:
            try:
                self._unproven = self._self_test()
                self._log.begin()
            except BaseException:
                worker.close()
                raise
        return worker

    def unproven(self, pid: int | None) -> str:
        """Why silence of the tool proves nothing about this process's kernels; empty if it does."""
        if self._unproven:
            return self._unproven
        if self._sanitizing.filtered:
            return f"{self._sanitizing.filtered} may leave out kernels or reports of this case"
        maps = Path(f"/proc/{pid}/maps")
        try:
            if self._sanitizing.library in maps.read_text():
                return ""
        except OSError:
            return "the process is gone, and whether compute-sanitizer was in it is not known"
        return f"compute-sanitizer's {self._sanitizing.library} is not in the process"

    def has_reported(self, *, patient: bool) -> bool:
        """True if the tool has reported anything about a case; waits a moment for output that is still on its way."""
        deadline = time.monotonic() + (LATE_S if patient else SOON_S[self._sanitizing.tool])
        while not self._log.reported():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def end(self) -> ToolReport:
        """End every process in order and read what the tool has saved.  The worker must have been closed."""
        self.is_over = True
        self._server.close()
        has_ended = self._zygote.end(END_LIMIT_S)
        printed = self._log.text()
        saved = read_records(self._saved.read_text(errors="replace")) if self._saved.exists() else None
        if saved is None or (saved.is_truncated and not saved.records):
            why = "wrote no XML" if has_ended else f"did not end within {END_LIMIT_S:g} s"
            records, incomplete = records_printed(printed), f"compute-sanitizer {why}: these are its printed lines"
        else:
            records = tuple(record for record in saved.records if not record.at.kernel.startswith(SELF_TEST_KERNEL))
            incomplete = "compute-sanitizer's XML breaks off" if saved.is_truncated else ""
        if not incomplete and (more := count_not_printed(printed)):
            incomplete = f"{more} more reports of compute-sanitizer were not kept"
        return ToolReport(
            records=mark_accepted(records, self._sanitizing.tool, self._sanitizing.suppressions), incomplete=incomplete
        )

    def kill(self) -> None:
        """Kill every process at once; what the tool has kept is lost."""
        self.is_over = True
        self._server.close()
        self._zygote.dismiss()
        pid = self._zygote.pid  # the tool: it would outlive its script, and Python would outlive the tool
        for process in _tree(pid) if pid is not None else ():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._zygote.close()

    def _self_test(self) -> str:
        if self._sanitizing.tool is Tool.SYNCCHECK:
            return ""  # its planted mistake could hang; `unproven` checks that the tool is in the process
        failure = self._zygote.run_once(imported(self._sanitizing.self_test), SELF_TEST_LIMIT_S)
        deadline = time.monotonic() + LATE_S
        while not self._log.self_test_reported():
            if failure or time.monotonic() >= deadline:
                output = failure or tool_errors(self._log.text()) or "nothing was printed"
                return f"{self._sanitizing.tool} did not report a mistake that was made on purpose: {output}"
            time.sleep(POLL_S)
        return ""

    def _write(self, script: Path, log: Path) -> None:
        command = (*self._sanitizing.command, "--xml", "--save", str(self._saved), "--log-file", str(log))
        script.write_text(f'#!/bin/sh\nexec {shlex.join((*command, sys.executable))} "$@"\n', encoding="utf-8")
        script.chmod(0o700)

    def _does_not_run(self, problem: str) -> str:
        alone = shlex.join((*self._sanitizing.command, sys.executable, "-c", "import torch; torch.zeros(1).cuda()"))
        return (
            f"compute-sanitizer {self._sanitizing.version} does not run Python here: {problem}. Another release of it "
            f"may, or a newer driver; to see it alone: {alone}"
        )


def _tree(pid: int) -> list[psutil.Process]:
    """A process and all its descendants, the process last."""
    try:
        root = psutil.Process(pid)
        return [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return []
