"""Triage: makes findings of sightings.

Each sighting is first confirmed alone in a fresh process.  A confirmed case is then shrunk in turns, and the case that
is reported is confirmed again.  `harness.search.triage_queue` gives the turns of many sightings to the processes.
"""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from harness.model.case import Case, Scale
from harness.model.finding import Finding, ReplayCount
from harness.model.hardware_blame import HardwareBlame
from harness.model.op import Op
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.model.verdict import Fail, Outcome, Signature
from harness.oracles import registry
from harness.oracles.base import SingleRunOracle
from harness.oracles.traits import Need
from harness.search.campaign_statistics import Sighting, Trial
from harness.search.judge import Examination, Judge
from harness.search.runner import Runner, mapped
from harness.search.shrinking import AsReady, Shrinking, ShrinkLimits
from harness.workers.supervision.time_limits import Patience

OVERSIZED_SHARE = 0.5
"""The share of the time limits for an oversized case: it runs longer, and seldom shrinks much."""
REPEATS = 5
"""How often a reported case runs alone, if time allows."""
REPEATS_AT_ONCE = 4
"""As many as a GPU has processes on a machine of 16 cores."""
REPEATS_UNCONFIRMED = 10
"""The same for a case that did not show the failure the first time it ran alone."""
COMPILER_S = 20.0
"""The longest wait for the compiler, whose builds show whether a case lacks resources."""
REPEAT_LIMIT_S = 10.0
"""No repeat begins later: a case that hangs takes its whole time limit each time."""


class Blaming(Protocol):
    """Finds who is at fault for failures on hardware GPUs."""

    def blames(self, fail: Fail, op: Op, confirmed: Examination, /) -> Iterable[HardwareBlame]:
        """Yield who is at fault for a failure that a run alone has just confirmed, and then more about it."""
        ...

    def claims(self, cause: str, signature: Signature, /) -> bool:
        """Return True if no failure with another signature has claimed this cause before."""
        ...


Turns = Generator[Finding]
"""The work on one sighting, a bounded part at each `next`.  Each finding replaces the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """Makes findings of sightings."""

    runner: Runner
    judge: Judge
    libraries: tuple[str, ...] = ()
    engine_options: tuple[str, ...] = ()
    """As `Finding.engine_options`."""
    trying: Callable[[Case], None]
    """Called with each case before it runs, on the thread that takes the turn."""
    examinations: dict[Signature, Examination] = field(default_factory=dict[Signature, Examination])
    """The latest run alone that shows each sighting, judged by all oracles that need no further run."""
    blaming: Blaming | None = None
    """Finds who is at fault for failures on a hardware GPU; None if there is no need to ask."""
    look_into: Callable[[Finding], Finding] = lambda finding: finding
    """Returns a finding with what is known of wrong code; called once, after the shrinking."""
    as_ready: AsReady | None = None
    """As in `Shrinking`."""
    is_set_aside: Callable[[Case], bool] = lambda _: False
    """Returns True for a case that does not run any more, because its kernels take too long to compile."""

    def finding(self, sighting: Sighting, limits: ShrinkLimits) -> Finding:
        """Return the finding, with the failure that the reported case showed last."""
        *_, last = self.turns(sighting, limits, lambda: limits.seconds)
        return last

    def turns(self, sighting: Sighting, limits: ShrinkLimits, turn_s: Callable[[], float]) -> Turns:
        """Confirm the sighting in the first turn; explain or shrink it in later ones.

        `turn_s` returns how many seconds of shrinking the next turn may take.
        """
        if self.is_set_aside(sighting.first.case):
            yield self.unconfirmed(sighting)
            return
        confirmed = self._confirm(sighting)
        if isinstance(confirmed, Finding):
            yield confirmed
            return
        if confirmed is None:
            yield replace(self.unconfirmed(sighting), repeats=ReplayCount(shown=0, runs=1))
            yield self._confirm_after_others(sighting) or self._repeat_unconfirmed(sighting)
            return
        trial, examined = confirmed
        self.examinations[sighting.fail.signature] = examined
        yield replace(self._finding(sighting, examined), repeats=ReplayCount(shown=1, runs=1))
        blame = None
        for blame in self._blames(sighting, trial, examined):
            yield replace(self._finding(sighting, examined, blame), repeats=ReplayCount(shown=1, runs=1))
        if self.blaming and blame and blame.cause and not self.blaming.claims(blame.cause, sighting.fail.signature):
            return  # another failure of this miscompilation is being shrunk
        known = examined.fail_with(sighting.fail.signature) or sighting.fail
        shrinking, share = self._shrinking(known, sighting, trial, limits)
        while not shrinking.is_finished:
            shrinking.turn(share * turn_s())
            if (smaller := self._confirm_smaller(known, sighting, trial, shrinking.case, examined, blame)) is not None:
                examined = self.examinations[sighting.fail.signature] = smaller
                yield replace(self._finding(sighting, examined, blame), repeats=ReplayCount(shown=1, runs=1))
        repeats, _ = self._repeats(sighting, trial, examined.run.case, REPEATS)
        yield self.look_into(replace(self._finding(sighting, examined, blame), repeats=repeats))

    def repeats(self, fail: Fail, trial: Trial) -> bool:
        """Return True if the case also shows the failure alone in a fresh process."""
        return self._alone(fail, trial, trial.case, patience=Patience.LONG).fail_with(fail.signature) is not None

    def unconfirmed(self, sighting: Sighting) -> Finding:
        """Return the finding as the campaign saw it: it did not repeat, or there was no time to try."""
        return unconfirmed(sighting, self.libraries, self.engine_options)

    def _repeat_unconfirmed(self, sighting: Sighting) -> Finding:
        """Return the finding of a failure that did not repeat at once: it may be flaky, or depend on earlier cases."""
        trial = sighting.first
        repeats, shown = self._repeats(sighting, trial, trial.case, REPEATS_UNCONFIRMED)
        if shown is None:
            return replace(self.unconfirmed(sighting), repeats=repeats)
        *_, blame = (None, *self._blames(sighting, trial, shown))
        return replace(self._finding(sighting, shown, blame), repeats=repeats)

    def _repeats(
        self, sighting: Sighting, trial: Trial, case: Case, runs: int
    ) -> tuple[ReplayCount, Examination | None]:
        """Return how often the case shows the failure, and one run that shows it."""
        deadline = time.monotonic() + REPEAT_LIMIT_S

        def repeat(_: int) -> Examination | None:
            return self._alone(sighting.fail, trial, case) if time.monotonic() < deadline else None

        done = [self._alone(sighting.fail, trial, case)]
        # On hardware the start of processes takes longer than the case, and waits for others.
        at_once = 1 if self.blaming is None else REPEATS_AT_ONCE
        done += filter(None, mapped(repeat, range(runs - 1), at_once))
        signature = sighting.fail.signature
        shown = [examined for examined in done if examined.fail_with(signature) is not None]
        without = [examined for examined in done if examined.fail_with(signature) is None]
        otherwise = _other_result(without[0]) if without else ""
        return ReplayCount(shown=len(shown), runs=len(done), other_result=otherwise), shown[0] if shown else None

    def _confirm(self, sighting: Sighting) -> tuple[Trial, Examination] | Finding | None:
        """Return the simplest sighting, or else the first, that shows the failure in a fresh process.

        The time limit is generous.  A case that hung before and completes now is slow: the finding then says so.
        """
        for trial in {trial.case.digest: trial for trial in (sighting.simplest, sighting.first)}.values():
            examined = self._alone_for_all(sighting.fail, trial, trial.case)
            if examined.fail_with(sighting.fail.signature) is not None:
                return trial, examined
            slow = [fail for fail in examined.fails if fail.oracle == sighting.fail.oracle]
            if examined.run.overtime is not None and slow:
                return replace(self._finding(sighting, examined), fail=slow[0])
        return None

    def _confirm_after_others(self, sighting: Sighting) -> Finding | None:
        """Return the finding if it repeats in a fresh process after one earlier case of its device.

        Bisects the earlier cases down to one.
        """
        trial = sighting.first
        before = trial.before
        while before and (examined := self._shown_after(sighting, trial, before)):
            if len(before) == 1:
                return replace(self._finding(sighting, examined), preceding_case=before[0])
            middle = len(before) // 2
            later = before[middle:]
            before = later if self._shown_after(sighting, trial, later) else before[:middle]
        return None

    def _shown_after(self, sighting: Sighting, trial: Trial, before: Sequence[Case]) -> Examination | None:
        examined = self._alone(sighting.fail, trial, trial.case, before)
        return examined if examined.fail_with(sighting.fail.signature) is not None else None

    def _alone_for_all(self, fail: Fail, trial: Trial, case: Case) -> Examination:
        """Run the case alone with much time, for the failure's oracle and all that need no further run."""
        single = (oracle.name for oracle in self.judge.oracles if isinstance(oracle, SingleRunOracle))
        return self._alone(fail, trial, case, patience=Patience.LONG, further=tuple(single))

    def _alone(  # noqa: PLR0913 - the parts of one run, by keyword
        self,
        fail: Fail,
        trial: Trial,
        case: Case,
        before: Sequence[Case] = (),
        *,
        patience: Patience = Patience.USUAL,
        further: Sequence[str] = (),
    ) -> Examination:
        def execute(request: RunRequest) -> Run:
            self.trying(case_of(request))
            return self.runner.run_alone(request, before, patience=patience)

        return _examined(self.judge.only(fail.oracle, *further), fail.signature, trial, case, execute)

    def _shrinking(
        self, known: Fail, sighting: Sighting, trial: Trial, limits: ShrinkLimits
    ) -> tuple[Shrinking, float]:
        """Return the shrink of a case that shows the failure `known`, and its share of the time limits."""
        signature = sighting.fail.signature
        judge = self.judge.only(signature.oracle)
        run = partial(self.runner.run, patience=Patience.HURRIED)

        def shows(case: Case) -> bool:
            self.trying(case)
            return _shows(known, signature, _examined(judge, signature, trial, case, run))

        share = OVERSIZED_SHARE if trial.case.scale is Scale.OVERSIZED else 1.0
        shorter = replace(limits, seconds=share * limits.seconds)
        return Shrinking(trial, signature, shows, shorter, self.as_ready), share

    def _confirm_smaller(  # noqa: PLR0913, PLR0917 - the parts of one confirmation
        self,
        known: Fail,
        sighting: Sighting,
        trial: Trial,
        small: Case,
        latest: Examination,
        blame: HardwareBlame | None,
    ) -> Examination | None:
        """Return the run of the smaller case alone, if it shows the failure there for the same reason."""
        if small.digest == latest.run.case.digest:
            return None
        again = self._alone_for_all(sighting.fail, trial, small)
        if not _shows(known, sighting.fail.signature, again):
            return None
        if blame is not None and blame.cause:
            # A signature may have two reasons, and a smaller case may show the other one.
            first = next(iter(self._blames(sighting, trial, again)), None)
            return again if first is not None and first.cause == blame.cause else None
        return again

    def _blames(self, sighting: Sighting, trial: Trial, examined: Examination) -> Iterable[HardwareBlame]:
        return () if self.blaming is None else self.blaming.blames(sighting.fail, trial.op, examined)

    def _finding(self, sighting: Sighting, examined: Examination, blame: HardwareBlame | None = None) -> Finding:
        exact = None if blame is None else blame.exact
        fail = exact or examined.fail_with(sighting.fail.signature) or sighting.fail
        return Finding(
            fail=fail,
            case=examined.run.case,
            launch=examined.launch_of(fail),
            first_case=sighting.first.case,
            sightings=sighting.count,
            rule=sighting.rule,
            confirmed=True,
            cases=tuple(sighting.cases.values()),
            libraries=self.libraries,
            engine_options=self.engine_options,
            first_pictures=sighting.fail.pictures,
            first_seen=sighting.first_seen,
            hardware_blame=blame,
        )


def _examined(
    judge: Judge, signature: Signature, trial: Trial, case: Case, execute: Callable[[RunRequest], Run]
) -> Examination:
    """Run a case and judge it; if the oracle reads resources, wait for the compiler, which works in the background."""
    examined = judge.examine(trial.op, case, execute)
    if Need.RESOURCES not in registry.traits_of(signature.oracle).needs or examined.fail_with(signature) is not None:
        return examined
    return judge.judge_when_compiled(trial.op, examined.run, execute, COMPILER_S)


def _shows(known: Fail, signature: Signature, examined: Examination) -> bool:
    """Return True if a smaller case shows the failure, and is as bad: otherwise it may fail for another reason."""
    fail = examined.fail_with(signature)
    return fail is not None and fail.is_as_bad_as(known)


def unconfirmed(sighting: Sighting, libraries: tuple[str, ...], engine_options: tuple[str, ...]) -> Finding:
    """Return the finding as the campaign saw it, before anything was tried."""
    return Finding(
        fail=sighting.fail,
        case=sighting.first.case,
        launch=None,
        first_case=sighting.first.case,
        sightings=sighting.count,
        rule=sighting.rule,
        confirmed=False,
        cases=tuple(sighting.cases.values()),
        libraries=libraries,
        engine_options=engine_options,
        first_seen=sighting.first_seen,
    )


def _other_result(examined: Examination) -> str:
    """Describe the result of a run that did not show the failure."""
    if examined.fails:
        return str(examined.fails[0].signature)
    return {Outcome.PASS: "passed", Outcome.ABSTAIN: "could not be checked", Outcome.FAIL: "failed"}[examined.outcome]
