"""The promise that Triton's own sanitizers have nothing to report on the hardware GPU."""

from harness.model.compute_sanitizer_report import SanitizerRecord
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import launch_of
from harness.model.run import Run
from harness.model.triton_sanitizer_report import Differing, Exact, Instrumentation, Instrumented
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.compute_sanitizer import kernel_name, lines_of, reporters, unaccepted
from harness.oracles.endings import NO_LAUNCH, unfinished
from harness.oracles.traits import Causality, Traits

NOT_CHECKED = "the kernels were compiled without a sanitizer of Triton's"
MEANING = {
    Instrumentation.GSAN: (
        "Programs use the same cells of global memory in an undefined order, or a cell that is to be written once is "
        "written again, or read before: what is read depends on timing."
    ),
    Instrumentation.CONSAN: (
        "These accesses of shared or tensor memory have no defined order, or a barrier is used in a way that it does "
        "not allow: what is read depends on timing, or the kernel waits forever."
    ),
    Instrumentation.FPSAN: (
        "Sums and products of integers do not depend on their order, and a config should change nothing else. So with "
        "one of the two configs a term is left out, taken twice or read from another cell."
    ),
}


class TritonSanitizerClean(SingleRunOracle):
    """Fails once for each kernel, line and kind of check that failed in a case's kernels."""

    name = "triton-sanitizer"
    promise = "Triton's own sanitizers have nothing to report: accesses of global or of shared memory, by their kind."
    traits = Traits(
        rank=120,
        flaw=FlawKind.PROMISE,
        causality=Causality.KERNEL,
        judges_without_values=True,
        not_requested=frozenset({NOT_CHECKED}),
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail for each record that is not accepted; pass only if every kernel demonstrably was checked."""
        run, watched = evidence.run, evidence.run.instrumented
        if watched is None:
            return (Abstain(oracle=self.name, reason=NOT_CHECKED),)
        if failures := tuple(self._fail(run, watched, record) for record in unaccepted(watched)):
            return failures
        if reason := unfinished(run) or ("" if run.launches else NO_LAUNCH) or watched.unproven:
            return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name),) if watched.has_values else self._by_bits(run, watched.exact)

    def _by_bits(self, run: Run, exact: Exact | None) -> tuple[Verdict, ...]:
        """Fail once for each result that differs between FpSan's two runs."""
        if exact is None or not exact.compared:
            return (Abstain(oracle=self.name, reason="no result was stored by a kernel itself"),)
        if exact.configs[0] == exact.configs[1]:
            reason = f"{exact.kernel} ran with config [{exact.configs[0]}] again, since the GPU refuses another"
            return (Abstain(oracle=self.name, reason=reason),)
        fails = tuple(self._fail_differing(run, exact, differing) for differing in exact.differing)
        return fails or (Pass(oracle=self.name),)

    def _fail_differing(self, run: Run, exact: Exact, differing: Differing) -> Fail:
        first, second = exact.configs
        launch = launch_of(run.launches, exact.kernel)
        return Fail(
            signature=self.signature(
                run,
                kernel=exact.kernel,
                place=f"{Instrumentation.FPSAN}: {differing.writer[1]}",
                severity=Severity.WARNING,
            ),
            message=(
                f"fpsan: {differing.name} has other bits with configs [{first}] and [{second}] of {exact.kernel}, "
                "though it is computed in integers"
            ),
            meaning=MEANING[Instrumentation.FPSAN],
            source=launch.source if launch else None,
        )

    def _fail(self, run: Run, watched: Instrumented, record: SanitizerRecord) -> Fail:
        kernel, source = record.at.kernel, record.at.source
        return Fail(
            signature=self.signature(run, kernel=kernel, place=f"{watched.mode}: {source} {record.what}"),
            message=f"{watched.mode}: {record.text}{reporters(record)} in {kernel_name(run, kernel)}{lines_of(record)}",
            meaning=MEANING[watched.mode],
            source=source,
        )


ORACLES = (TritonSanitizerClean(),)
