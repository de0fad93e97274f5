"""Nothing is read that was never stored."""

from collections.abc import Sequence

from harness.model.run import Completed, UninitialisedRead
from harness.model.verdict import Fail, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.memory_events import cells, judge_lines, place_of, shading, were, where

USED = (
    "The kernel computes with whatever the memory held before: often zeros in a test, and another tensor's values in a "
    "long-running program."
)
DISCARDED = (
    "No NaN, which the memory held, is seen in a result of this case: the kernel reads more than it uses, and masks "
    "the rest afterwards."
)


class UninitialisedReads(Alone):
    """Loads of `torch.empty` memory that no launch had stored by then.

    Fresh memory holds NaN: where none reaches a result, what was read is thrown away, which is worth no more than a
    warning.
    """

    name = "uninitialised-read"
    promise = "No kernel loads a cell that nothing has stored since it was allocated."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure for each line that reads."""
        run = evidence.run
        used = not run.results or any(result.nonfinite for result in run.results)
        used &= isinstance(run.ending, Completed)

        def fail(group: Sequence[UninitialisedRead]) -> Fail:
            first = group[0]
            return Fail(
                signature=Signature(
                    oracle=self.name,
                    severity=Severity.ERROR if used else Severity.WARNING,
                    op=run.case.op,
                    kernel=first.site.kernel,
                    place=place_of(first.site),
                ),
                message=(
                    f"{cells(first.site.argument, first.first_cells, first.cells)} {were(first.cells)} read by program "
                    f"{first.program} before anything was stored there{where(group)}"
                ),
                meaning=USED if used else DISCARDED,
                source=first.site.source,
                pictures=shading(
                    first.site.argument, "read before anything was stored", first.where, first.first_cells
                ),
            )

        return judge_lines(
            self.name, run, (event for event in run.memory if isinstance(event, UninitialisedRead)), fail
        )
