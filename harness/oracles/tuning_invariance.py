"""The promise that a call which tunes has the same results as a later one, which finds its config in the cache."""

from harness.model.ending import Completed
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun, launch_of
from harness.model.run import Run
from harness.model.tuning import TunedRun, TunerCall
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.autotuner_choice import NOT_TUNED
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe, unfinished
from harness.oracles.traits import Causality, Need, Traits
from harness.wording import counted


class TuningInvariance(SingleRunOracle):
    """Compares a case with a second run in which autotuners tune before they launch the same configs, bit for bit."""

    name = "tuning-invariance"
    promise = "The results are the same whether a call tunes its kernels first or finds their configs in the cache."
    traits = Traits(
        rank=310,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.TUNING,
        not_requested=frozenset({NOT_TUNED}),
        more_than_launch="it shows only while an autotuner tunes",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kernel that leaves other contents, or once if the second run breaks off."""
        run, tuned = evidence.run, evidence.run.tuned
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if tuned is None or not any(call.tried for call in tuned.calls):
            return (Abstain(oracle=self.name, reason=NOT_TUNED),)
        if not isinstance(tuned.ending, Completed):
            return (self._fail_ended(run, tuned),)
        if not tuned.same_configs:
            return (Abstain(oracle=self.name, reason="a call had another config of its kernel when tuned"),)
        differing = [result.name for result in run.results if tuned.digests.get(result.name) != result.digest]
        if not differing:
            return (Pass(oracle=self.name),)
        at_fault = [call for call in tuned.calls if call.changed]
        failures = (self._fail(run, call, differing) for call in at_fault)
        return tuple({fail.signature: fail for fail in failures}.values()) or (self._fail_alone(run, differing),)

    def _fail(self, run: Run, call: TunerCall, differing: list[str]) -> Fail:
        names = ", ".join(call.changed)
        launch = launch_of(run.launches, call.kernel)
        return Fail(
            signature=self.signature(run, kernel=call.kernel, place=call.changed[0]),
            message=(
                f"{', '.join(differing)} differs in the call that tunes {call.kernel}: "
                f"{counted(len(call.tried), 'config')} ran on the same {names} before the chosen one [{call.chosen}]"
            ),
            meaning=(
                f"Every benchmark runs the kernel on the caller's tensors.  {call.changed[0]} is read and changed, or "
                f"not stored whole, so it needs `restore_value` or `reset_to_zero`{_declared(call)}."
            ),
            source=launch.source if launch else None,
        )

    def _fail_alone(self, run: Run, differing: list[str]) -> Fail:
        return Fail(
            signature=self.signature(run, kernel="", place=differing[0]),
            message=f"{', '.join(differing)} differs in the call that tunes, although no kernel leaves other contents",
            meaning="The call that tunes takes another path than later ones.",
        )

    def _fail_ended(self, run: Run, tuned: TunedRun) -> Fail:
        kernel = getattr(tuned.ending, "launch", None) or ""
        return Fail(
            signature=self.signature(run, kernel=kernel, place="the call that tunes"),
            message=f"a call that tunes {kernel or 'its kernels'} breaks off, and one that does not tune completes: "
            f"{describe(tuned.ending)}",
            meaning="The first call for a new key fails, however well later ones would work.",
        )


ORACLES = (TuningInvariance(),)


def _declared(call: TunerCall) -> str:
    declared = [
        f"{word}={list(names)}"
        for word, names in (("restore_value", call.restores), ("reset_to_zero", call.resets))
        if names
    ]
    return f" (declared: {', '.join(declared)})" if declared else ""
