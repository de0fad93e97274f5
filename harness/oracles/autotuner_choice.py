"""The promise that an autotuner chooses a config that works, launches it, and hides no mistake."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun, launch_of
from harness.model.run import Run
from harness.model.tuning import TriedConfig, TunerCall
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.traits import Traits

EXPECTED = "OutOfResources"
"""The exception that an autotuner may catch in silence: a config is too large for this GPU."""
NOT_TUNED = "no autotuner tuned in this case"


class AutotunerChoice(SingleRunOracle):
    """Reads what autotuners did in a run in which they tune."""

    name = "autotuner-choice"
    promise = (
        "An autotuner chooses the fastest config that works, launches it, and hides no error but a lack of memory."
    )
    traits = Traits(
        rank=100,
        flaw=FlawKind.PROMISE,
        second_run=SecondRun.TUNING,
        not_requested=frozenset({NOT_TUNED}),
        more_than_launch="it shows only while an autotuner tunes",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kernel and kind of mistake."""
        tuned = evidence.run.tuned
        if tuned is None:
            return (Abstain(oracle=self.name, reason=NOT_TUNED),)
        calls = [call for call in tuned.calls if call.tried]
        if not calls:
            return (Abstain(oracle=self.name, reason=NOT_TUNED),)
        failures = (fail for call in calls for fail in self._failures(evidence.run, call))
        return tuple({fail.signature: fail for fail in failures}.values()) or (Pass(oracle=self.name),)

    def _failures(self, run: Run, call: TunerCall) -> Iterator[Fail]:
        launch = launch_of(run.launches, call.kernel)
        for mistake in _mistakes(call):
            yield Fail(
                signature=self.signature(run, kernel=call.kernel, place=mistake.place, severity=mistake.severity),
                message=mistake.message,
                meaning=mistake.meaning,
                source=launch.source if launch else None,
            )


ORACLES = (AutotunerChoice(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mistake:
    place: str
    message: str
    meaning: str
    severity: Severity = Severity.ERROR


def _mistakes(call: TunerCall) -> Iterator[_Mistake]:
    kernel, chosen = call.kernel, call.chosen
    if chosen and not call.fastest:
        yield _Mistake(
            place="every config failed",
            message=f"all {len(call.tried)} configs of {kernel} failed while tuning, and [{chosen}] was chosen all the "
            f"same; the first error: {_error(call.tried[0])}",
            meaning="The autotuner takes a config that fails for one that is slow.  If all fail, the first one wins.",
        )
    elif chosen and chosen != call.fastest:
        yield _Mistake(
            place="not the fastest",
            message=f"the autotuner of {kernel} chose [{chosen}], although [{call.fastest}] was the fastest",
            meaning="The kernel runs with a config that the benchmarks do not favour, so tuning has no effect.",
        )
    if call.overridden:
        yield _Mistake(
            place="not the chosen one",
            message=f"{kernel} was not launched with the chosen config [{chosen}]: {', '.join(call.overridden)}",
            meaning="A heuristic or a wrapper replaces parameters of the config between the autotuner and the kernel.",
        )
    for tried in call.tried:
        if call.fastest and tried.error and tried.error != EXPECTED:
            yield _Mistake(
                place=tried.error,
                message=f"the autotuner of {kernel} swallowed an error of config [{tried.config}]: {_error(tried)}",
                meaning="A config that never works costs time whenever the kernel is tuned, and hides why it does not.",
                severity=Severity.WARNING,
            )


def _error(tried: TriedConfig) -> str:
    return f"{tried.error}{f' ({tried.message})' if tried.message else ''}"
