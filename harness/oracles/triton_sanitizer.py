"""Nothing that Triton's own sanitizers check for happens on the real GPU."""

from harness.model.compute_sanitizer_report import SanitizerRecord
from harness.model.paired_run import launch_of
from harness.model.run import Run
from harness.model.triton_sanitizer_report import Differing, Exact, Instrumentation, Instrumented
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.compute_sanitizer import place_of, standing, where, whose
from harness.oracles.endings import unfinished

NOT_CHECKED = "the kernels were compiled without a sanitizer of Triton's"
MEANING = {
    Instrumentation.GSAN: (
        "Programs use the same cells of global memory in an order that nothing settles, or a cell that is to be "
        "written once is written again, or read before: what is read depends on timing."
    ),
    Instrumentation.CONSAN: (
        "Nothing settles the order of these accesses of shared or tensor memory, or a barrier is used in a way that it "
        "does not allow: what is read depends on timing, or the kernel waits for ever."
    ),
    Instrumentation.FPSAN: (
        "Sums and products of integers do not depend on their order, which is all that a config should change: so with "
        "one of the two something is left out, taken twice or read elsewhere."
    ),
}


class TritonSanitizer(Alone):
    """The checks that failed in a case's kernels; each kernel, line and kind is one failure."""

    name = "triton-sanitizer"
    promise = "Triton's own sanitizers have nothing to report: accesses of global or of shared memory, by their kind."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """A failure for each record that is not accepted; a pass only where every kernel demonstrably was checked."""
        run, watched = evidence.run, evidence.run.instrumented
        if watched is None:
            return (Abstain(oracle=self.name, reason=NOT_CHECKED),)
        if failures := tuple(self._fail(run, watched, record) for record in standing(watched)):
            return failures
        if reason := unfinished(run) or ("" if run.launches else "no kernel was launched") or watched.unproven:
            return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name),) if watched.has_values else self._by_bits(run, watched.exact)

    def _by_bits(self, run: Run, exact: Exact | None) -> tuple[Verdict, ...]:
        """Of FpSan's two runs: one failure for each result that differs."""
        if exact is None or not exact.compared:
            return (Abstain(oracle=self.name, reason="no result was stored by a kernel itself"),)
        if exact.configs[0] == exact.configs[1]:
            reason = f"{exact.kernel} ran with config [{exact.configs[0]}] again, since the GPU refuses another"
            return (Abstain(oracle=self.name, reason=reason),)
        return tuple(self._differs(run, exact, one) for one in exact.differing) or (Pass(oracle=self.name),)

    def _differs(self, run: Run, exact: Exact, differing: Differing) -> Fail:
        first, second = exact.configs
        launch = launch_of(run.launches, exact.kernel)
        return Fail(
            signature=Signature(
                oracle=self.name,
                severity=Severity.WARNING,
                op=run.case.op,
                kernel=exact.kernel,
                place=f"{Instrumentation.FPSAN}: {differing.writer[1]}",
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
            signature=Signature(
                oracle=self.name,
                severity=Severity.ERROR,
                op=run.case.op,
                kernel=kernel,
                place=f"{watched.mode}: {source} {record.what}",
            ),
            message=f"{watched.mode}: {record.text}{where(record)} in {whose(run, kernel)}{place_of(record)}",
            meaning=MEANING[watched.mode],
            source=source,
        )
