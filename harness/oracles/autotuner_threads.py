"""The promise that an op may be called from another thread while an autotuner tunes."""

from collections.abc import Iterator

from harness.model.ending import Completed
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun, launch_of
from harness.model.run import Run
from harness.model.tuning import InterruptedRun
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe
from harness.oracles.traits import Traits

NOT_INTERRUPTED = "no tuning was interrupted by another thread in this case"


class AutotunerThreads(SingleRunOracle):
    """Compares two calls in two threads, one of which comes while the other tunes, with the same calls alone."""

    name = "autotuner-threads"
    promise = "An op that declares `threads=True` may be called from one thread while it tunes a kernel in another."
    traits = Traits(
        rank=330,
        flaw=FlawKind.PROMISE,
        second_run=SecondRun.THREADS,
        not_requested=frozenset({NOT_INTERRUPTED}),
        more_than_launch="it shows only between two threads",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once, with everything that went wrong."""
        run, interrupted = evidence.run, evidence.run.interrupted
        if interrupted is None or not interrupted.kernel:
            return (Abstain(oracle=self.name, reason=NOT_INTERRUPTED),)
        if not (seen := tuple(_mistakes(interrupted))):
            return (Pass(oracle=self.name),)
        return (self._fail(run, interrupted, "; ".join(seen)),)

    def _fail(self, run: Run, interrupted: InterruptedRun, seen: str) -> Fail:
        launch = launch_of(run.launches, interrupted.kernel)
        return Fail(
            signature=self.signature(run, kernel=interrupted.kernel, place="two threads"),
            message=(
                f"while {interrupted.kernel} was tuned in one thread, another one called the op with "
                f"{interrupted.other}: {seen}"
            ),
            meaning=(
                "An autotuner keeps the arguments of the call in progress in an attribute (`nargs`), which all threads "
                "share.  A lock around the call would make it safe."
            ),
            source=launch.source if launch else None,
        )


ORACLES = (AutotunerThreads(),)


def _mistakes(interrupted: InterruptedRun) -> Iterator[str]:
    if not isinstance(interrupted.ending, Completed):
        yield f"in the thread that tunes, {describe(interrupted.ending)}"
    if interrupted.other_ending is None:
        yield "the other thread waits forever"
    elif not isinstance(interrupted.other_ending, Completed):
        yield f"in the other thread, {describe(interrupted.other_ending)}"
    if interrupted.differing:
        yield f"{', '.join(interrupted.differing)} differs in the thread that tunes"
    if interrupted.other_differing:
        yield f"{', '.join(interrupted.other_differing)} differs in the other thread"
