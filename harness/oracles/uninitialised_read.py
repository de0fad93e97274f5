"""The promise that no kernel reads memory that was never stored."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import Completed, Stray, UninitialisedRead
from harness.model.verdict import Fail, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, cells, judge_lines, place_of, shading, was_or_were
from harness.oracles.traits import Causality, PromiseScope, Traits

USED = (
    "The kernel computes with whatever the memory held before: often zeros in a test, and another tensor's values in a "
    "long-running program."
)
DISCARDED = (
    "The memory held NaN, and no result of this case has one: the kernel reads more than it uses, and masks the rest "
    "afterwards."
)
UNCOMPARED = (
    "The kernel uses whatever the memory held before, or masks it afterwards. Which of the two is not known, since no "
    "result is compared here."
)
INTEGERS = (
    "No result of this case is wrong, and integers have no NaN that would show their use: the kernel reads more than "
    "it uses, or the values that were there do no harm."
)


class NoUninitialisedReads(SingleRunOracle):
    """Fails on loads of `torch.empty` memory that no launch had stored by then.

    Fresh memory holds NaN.  If no NaN reaches a result, the kernel discards what it read, and the failure is a warning.
    Integers have no NaN: the failure is a warning unless a result is wrong or an address stray.
    """

    name = "uninitialised-read"
    promise = "No kernel loads a cell that nothing has stored since it was allocated."
    traits = Traits(rank=190, flaw=FlawKind.UNINITIALISED, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line that reads."""
        run = evidence.run
        is_used = any(result.nonfinite for result in run.results) or bool(run.nans)
        is_used |= not run.results and not run.is_undefined
        is_used &= isinstance(run.ending, Completed)

        is_harmful = isinstance(run.ending, Completed) and (
            any(not result.is_right for result in run.results) or any(isinstance(event, Stray) for event in run.memory)
        )

        def fail(group: Sequence[UninitialisedRead]) -> Fail:
            first = group[0]
            has_integers = any(event.is_integer for event in group)
            is_error = is_used or (has_integers and is_harmful)
            unused = UNCOMPARED if run.is_undefined else INTEGERS if has_integers else DISCARDED
            return Fail(
                signature=self.signature(
                    run,
                    kernel=first.site.kernel,
                    place=place_of(first.site),
                    severity=Severity.ERROR if is_error else Severity.WARNING,
                ),
                message=(
                    f"{cells(first.site.argument, first.first_cells, first.cells)} {was_or_were(first.cells)} read by "
                    f"program {first.program} before anything was stored there{at_line(group)}"
                ),
                meaning=USED if is_error else unused,
                source=first.site.source,
                launch_index=first.site.launch,
                argument=first.site.argument,
                pictures=shading(
                    first.site.argument, "read before anything was stored", first.cell_map, first.first_cells
                ),
            )

        return judge_lines(
            self.name, run, (event for event in run.memory if isinstance(event, UninitialisedRead)), fail
        )


ORACLES = (NoUninitialisedReads(),)
