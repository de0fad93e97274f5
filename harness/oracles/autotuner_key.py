"""The promise that an autotuner's key has what decides about its configs, and nothing else."""

from collections.abc import Iterator, Mapping

from harness.model.device import DeviceProfile
from harness.model.ending import Completed
from harness.model.flaw_kind import FlawKind
from harness.model.kernel_resources import Resources
from harness.model.paired_run import SecondRun, launch_of
from harness.model.run import Run
from harness.model.tuning import ForcedRun, KeySweep, SharedEntry
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe
from harness.oracles.resources import shortages
from harness.oracles.traits import Need, Traits

NO_KEYS = "the keys of no autotuner were surveyed in this case"


class AutotunerKey(SingleRunOracle):
    """Reads the keys of calls that differ in one thing, and a run with a config that another call left in the cache."""

    name = "autotuner-key"
    promise = "Calls share a config only if it works for all of them, and new sizes tune anew only if that can matter."
    traits = Traits(
        rank=320,
        flaw=FlawKind.PROMISE,
        needs=frozenset({Need.RESOURCES}),
        second_run=SecondRun.KEYS,
        not_requested=frozenset({NO_KEYS}),
        more_than_launch="it shows only between two calls",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each argument that is missing or too much."""
        run, keys = evidence.run, evidence.run.keys
        if keys is None or not keys.kernels:
            return (Abstain(oracle=self.name, reason=NO_KEYS),)
        failures = [self._needless(run, sweep) for sweep in keys.sweeps]
        for entry in keys.shared:
            failures += [self._missing(run, entry, seen) for seen in _mistakes(run, entry, evidence.resources)][:1]
        return tuple({fail.signature: fail for fail in failures}.values()) or (Pass(oracle=self.name),)

    def _needless(self, run: Run, sweep: KeySweep) -> Fail:
        reason = (
            "its code does not use that argument"
            if sweep.is_unused
            else f"the argument has another value for each {sweep.dim}, and the code is the same for most"
        )
        launch = launch_of(run.launches, sweep.kernel)
        return Fail(
            signature=self.signature(run, kernel=sweep.kernel, place=sweep.argument, severity=Severity.WARNING),
            message=(
                f"{sweep.argument} in the key of {sweep.kernel} makes it tune {sweep.tunings} times where "
                f"{sweep.needed} would do, for {len(sweep.sizes)} values of {sweep.dim} from {sweep.sizes[0]} to "
                f"{sweep.sizes[-1]}: {reason}"
            ),
            meaning=(
                "Every new value of the argument runs all benchmarks again, in the middle of training or serving.  If "
                "it stands for a class of sizes on purpose, name it in the op's `buckets`."
            ),
            source=launch.source if launch else None,
        )

    def _missing(self, run: Run, entry: SharedEntry, seen: str) -> Fail:
        names = ", ".join(difference.partition(":")[0] for difference in entry.differing)
        launch = launch_of(run.launches, entry.kernel)
        reasons = f" ({'; '.join(entry.differing)})" if entry.differing else ""
        excluded = ", which its own pruning excludes" if entry.is_pruned else ""
        key = ", ".join(f"{name}={value}" for name, value in entry.key.items())
        return Fail(
            signature=self.signature(run, kernel=entry.kernel, place=f"lacks {names or entry.other}"),
            message=(
                f"the case with {entry.other} shares the key ({key}) of {entry.kernel}, and with the config "
                f"[{entry.config}] that it may leave there this case fails{excluded}: {seen}"
            ),
            meaning=(
                "Which call comes first decides about the config of both.  The autotuner's key lacks what tells them "
                f"apart{reasons}."
            ),
            source=launch.source if launch else None,
        )


ORACLES = (AutotunerKey(),)


def _mistakes(run: Run, entry: SharedEntry, resources: Mapping[str, Resources]) -> Iterator[str]:
    """Yield what is wrong here, if nothing is wrong with the config in the other case."""
    if not _is_clean(entry.there):
        return
    if not isinstance(entry.here.ending, Completed):
        yield describe(entry.here.ending)
    elif entry.is_pruned and entry.here.events:
        yield entry.here.events[0]
    elif entry.is_pruned and entry.here.wrong:
        yield f"{', '.join(entry.here.wrong)} is wrong"
    elif not any(_short(entry.there, resources, run.case.device)):
        yield from _short(entry.here, resources, run.case.device)


def _is_clean(forced: ForcedRun) -> bool:
    return isinstance(forced.ending, Completed) and not forced.wrong and not forced.events


def _short(forced: ForcedRun, resources: Mapping[str, Resources], device: DeviceProfile) -> Iterator[str]:
    for build in forced.builds:
        if build in resources:
            yield from (shortage.seen for shortage in shortages(resources[build], device))
