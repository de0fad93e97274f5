"""The promise that compute-sanitizer has nothing to report on the hardware GPU."""

from harness.model.compute_sanitizer_report import Level, Sanitized, SanitizerRecord, Tool
from harness.model.flaw_kind import FlawKind
from harness.model.run import Completed, Run
from harness.model.triton_sanitizer_report import Instrumented
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, unfinished
from harness.oracles.traits import Causality, PromiseScope, Traits

NOT_UNDER_IT = "the case did not run under compute-sanitizer"
MEANING = {
    Tool.MEMCHECK: (
        "The access leaves its allocation or is misaligned; without the tool it lands in another tensor, or loses the "
        "process's CUDA context."
    ),
    Tool.RACECHECK: (
        "Nothing orders these accesses of shared memory by threads of one program: what is read depends on timing."
    ),
    Tool.INITCHECK: "What is read was never written: it is whatever an earlier kernel left in that memory.",
    Tool.SYNCCHECK: "Threads meet at a barrier in a way that the GPU does not define: they may hang, or not wait.",
}


class ComputeSanitizerClean(SingleRunOracle):
    """Fails once for each kernel, line and kind in the records of the tool that the process ran under."""

    name = "compute-sanitizer"
    promise = "compute-sanitizer has nothing to report: memory, shared memory, initialisation or barriers, by its tool."
    traits = Traits(
        rank=110,
        flaw=FlawKind.PROMISE,
        causality=Causality.KERNEL,
        scope=PromiseScope.SANITIZED_PROCESS,
        not_requested=frozenset({NOT_UNDER_IT}),
        has_harmful_warnings=True,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail for each record that is not accepted; pass only if the tool demonstrably checked everything."""
        run, watched = evidence.run, evidence.run.sanitizer
        if watched is None:
            return (Abstain(oracle=self.name, reason=NOT_UNDER_IT),)
        if failures := tuple(self._fail(run, watched, record) for record in unaccepted(watched)):
            return failures
        if reason := self._unproven(run, watched):
            return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name),)

    def _unproven(self, run: Run, watched: Sanitized) -> str | None:
        if reason := unfinished(run):
            return reason
        if not run.launches:
            return NO_LAUNCH
        return watched.unproven or watched.incomplete or None

    def _fail(self, run: Run, watched: Sanitized, record: SanitizerRecord) -> Fail:
        at = record.at
        place = f"{at.source} {record.what}" if at.source else record.what
        return Fail(
            signature=self.signature(
                run,
                kernel=at.kernel,
                place=f"{watched.tool}: {place}",
                severity=Severity.WARNING if record.level is Level.WARNING else Severity.ERROR,
            ),
            message=(
                f"{watched.tool}: {record.text}{reporters(record)} in {kernel_name(run, at.kernel)}{lines_of(record)}"
            ),
            meaning=MEANING[watched.tool],
            source=at.source,
        )


ORACLES = (ComputeSanitizerClean(),)


def unaccepted(watched: Sanitized | Instrumented) -> tuple[SanitizerRecord, ...]:
    """Return the records that count: neither accepted as known nor mere information."""
    return tuple(record for record in watched.records if not record.accepted and record.level is not Level.INFO)


def ended_by_tool(run: Run) -> bool:
    """Return True if a sanitizer may have ended the case: memcheck and a failed check destroy the CUDA context."""
    if isinstance(run.ending, Completed):
        return False
    watched, checked = run.sanitizer, run.instrumented
    by_memcheck = watched is not None and watched.tool is Tool.MEMCHECK and bool(watched.records)
    return by_memcheck or (checked is not None and bool(checked.records))


def reporters(record: SanitizerRecord) -> str:
    """Return the program and thread of the first report, and the number of reports."""
    at = record.at
    first = ", ".join(
        f"{noun} ({', '.join(map(str, index))})"
        for noun, index in (("program", at.program), ("thread", at.thread))
        if index is not None
    )
    if record.count == 1:
        return f" by {first}" if first else ""
    return f" in {record.count} reports, first by {first}" if first else f" in {record.count} reports"


def kernel_name(run: Run, kernel: str) -> str:
    """Return the kernel's name, with a remark if no launch of the case has that name.

    A run without launches gets no remark.  Its process died before it could report them: torch aborts as it frees
    memory of a context that memcheck has ended.
    """
    if not kernel:
        return "an unnamed kernel"
    launched = {launch.kernel for launch in run.launches}
    return f"{kernel}, which is no Triton kernel" if launched and kernel not in launched else kernel


def lines_of(record: SanitizerRecord) -> str:
    """Return the end of the message: the source line, and the other accesses of a race."""
    source = f" ({record.at.source})" if record.at.source else ""
    touches = "; ".join(map(str, record.others))
    return f"{source}, against {touches}" if touches else source
