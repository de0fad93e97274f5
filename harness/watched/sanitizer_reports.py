"""What compute-sanitizer prints about the launches of a watched command.

Each process reads the tool's log after each launch, so a report gets its test and its line.  All processes share one
log: a process takes the reports that name the kernel that it has just launched.  The parent reads the rest at the end.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.engines.cuda.sanitizers.sanitizer_command import LIBRARY
from harness.engines.cuda.sanitizers.sanitizer_log import records_printed, reports
from harness.engines.cuda.sanitizers.sanitizer_records import mark_accepted
from harness.engines.cuda.sanitizers.suppressions import Suppression, read_suppressions
from harness.model.case import Case, DType
from harness.model.compute_sanitizer_report import Sanitized, SanitizerRecord
from harness.model.engine_traits import CUDA
from harness.model.run import Completed, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.compute_sanitizer import ComputeSanitizerClean
from harness.watched.watch_records import LaunchFailure, SanitizerPlan
from harness.watched.watch_report import WatchedCommand
from harness.workers.sanitized.sanitizer_process import LATE_S

POLL_S = 0.005
SOON_S = 0.02
"""How long after a launch that succeeded the tool may still print."""
QUIET_S = 0.05
"""A report is complete if nothing follows it for so long."""


class SanitizerReports:
    """Reads the reports about the launches of this process."""

    def __init__(self, plan: SanitizerPlan, accepts: Path) -> None:
        self._plan = plan
        self._accepted = read_suppressions(accepts)
        self._log = Path(plan.log)
        self._read = _size(self._log)
        """Bytes of the log that were read before."""
        self._last = ""
        """The last report, of which more lines may follow."""
        self._unproven = plan.unproven or _unproven_here()

    def of_launch(self, *kernels: str, is_patient: bool) -> Sanitized:
        """Return what the tool reports about a launch, or the replay of a CUDA graph, that has just ended.

        Args:
            kernels: the names of the kernels.
            is_patient: True to wait longer for a first report, since the launch failed.
        """
        text = self._new_reports(LATE_S if is_patient else SOON_S)
        records = (record for record in records_printed(text) if record.at.kernel in kernels)
        return Sanitized(
            tool=self._plan.tool,
            version=self._plan.version,
            records=mark_accepted(records, self._plan.tool, self._accepted),
            launches=1,
            unproven=self._unproven,
        )

    def _new_reports(self, wait_s: float) -> str:
        """Return the reports that were printed, or went on, since the last call."""
        new = self._new_text(wait_s)
        if not new:
            return ""
        before, text = self._last, self._last + new
        printed = tuple(reports(text))
        self._last = printed[-1] if printed and text.endswith(printed[-1]) else ""
        return "".join(report for report in printed if report != before)

    def _new_text(self, wait_s: float) -> str:
        """Return what was printed since the last call.  Waits for a first report, and for the end of one."""
        end, size = time.monotonic() + wait_s, self._read
        while True:
            grown = _size(self._log)
            if grown > size:
                end, size = time.monotonic() + QUIET_S, grown
            if time.monotonic() >= end:
                break
            time.sleep(POLL_S)
        if size == self._read:
            return ""
        with self._log.open("rb") as file:
            file.seek(self._read)
            content = file.read(size - self._read)
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace")


def rest_of_reports(
    plan: SanitizerPlan,
    accepted: Iterable[Suppression],
    known: Iterable[LaunchFailure],
    command: WatchedCommand,
) -> tuple[LaunchFailure, ...]:
    """Return failures for the reports that no process took, as those on kernels of torch."""
    log = Path(plan.log)
    text = log.read_text(errors="replace") if log.exists() else ""
    records = mark_accepted(records_printed(text), plan.tool, accepted)
    seen = {failure.fail.signature for failure in known}
    case = Case(op="", dims={}, dtype=DType.FP32, device=command.device)
    fails = _fails(Sanitized(tool=plan.tool, version=plan.version), records, case)
    return tuple(
        LaunchFailure(test=" ".join(command.words), fail=fail, dtype=case.dtype, launch=None, called_from=None)
        for fail in fails
        if fail.signature not in seen
    )


def _fails(sanitized: Sanitized, records: tuple[SanitizerRecord, ...], case: Case) -> Iterable[Fail]:
    run = Run(case=case, engine=CUDA.name, ending=Completed(), sanitizer=replace(sanitized, records=records))
    verdicts = registry.judge_all(run, {}, {}, oracles=(ComputeSanitizerClean(),))
    return (verdict for verdict in verdicts if isinstance(verdict, Fail))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _unproven_here() -> str:
    """Return why silence of the tool proves nothing about this process; empty if the tool is in it."""
    is_mapped = LIBRARY in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return "" if is_mapped else f"compute-sanitizer's {LIBRARY} is not in the process"
