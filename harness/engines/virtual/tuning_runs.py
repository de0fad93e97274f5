"""The second runs that check autotuners: they tune, keys are surveyed, entries of caches shared, tuning interrupted."""

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from harness.engines.triton.autotuner_seam import InterruptedTuning, Tuning
from harness.engines.triton.key_survey import KeySurvey
from harness.engines.triton.triton_seam import ConfigChooser
from harness.engines.virtual.key_check import (
    Calls,
    Candidate,
    difference,
    legal_neighbours,
    may_be_needless,
    needless,
    sharing,
    sweep,
    telling,
)
from harness.engines.virtual.launches import VirtualCaseLaunches
from harness.execution.case_execution import CaseExecution
from harness.model.case import Case, GradMode
from harness.model.op import Op
from harness.model.run import Ending, Launch, MemoryEvent, UndefinedLanes
from harness.model.tuning import ForcedRun, InterruptedRun, KeyCheck, KeySweep, SharedEntry, TunedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRuns:
    """Runs cases again, in this process, with autotuners that do something else than the case says."""

    op: Op
    execution: CaseExecution
    chooser: ConfigChooser
    state_for: Callable[[Case], AbstractContextManager[VirtualCaseLaunches]]
    """Makes the context of one run of a case."""
    other_execution: Callable[[], CaseExecution]
    """Makes an execution for another thread."""
    on_other_thread: Callable[[], object]
    """Is called in the other thread before it calls the op."""

    def tune(self, case: Case, launches: Sequence[Launch]) -> TunedRun:
        """Run the case with autotuners that tune, and then choose the configs of these launches."""
        tuning = Tuning(self.chooser, _configs(launches))
        with self.state_for(case) as case_launches, tuning.installed():
            ending, digests = self.execution.run_again(self.op, case)
        return TunedRun(
            ending=case_launches.ending(ending, self.chooser.failed),
            digests=digests,
            calls=tuple(tuning.calls),
            same_configs=tuning.same_configs,
        )

    def check_keys(self, case: Case) -> KeyCheck:
        """Survey the keys of the case's autotuners, and run what shares an entry with it."""
        mine = self._survey(case)
        sweeps = [part for name, dim in self.op.dims.items() if dim.varies for part in self._sweep(case, name)]
        candidate = sharing(mine, [(near, self._survey(near)) for near in legal_neighbours(self.op, case)])
        entry = None if candidate is None else self._share(case, candidate)
        return KeyCheck(kernels=tuple(mine), sweeps=tuple(sweeps), shared=() if entry is None else (entry,))

    def interrupt(self, case: Case, launches: Sequence[Launch], digests: Mapping[str, str]) -> InterruptedRun | None:
        """Run the case with autotuners that tune, and call the op in another thread after the first benchmark.

        `launches` and `digests` are those of the case alone.  Returns None if there is no other call.
        """
        varying = [name for name, dim in self.op.dims.items() if dim.varies]
        neighbours = (
            near
            for near in legal_neighbours(self.op, case)
            if any(near.dims[name] != case.dims[name] for name in varying)
        )
        if (other := next(neighbours, None)) is None:
            return None
        other = replace(other, grad_mode=GradMode.NO_GRAD)  # so that it needs no third thread
        execution = self.other_execution()
        with self.state_for(other) as alone:
            _, other_digests = execution.run_again(self.op, other)
        ended = list[tuple[Ending, Mapping[str, str]]]()

        def call() -> None:
            self.on_other_thread()
            with _random_state_kept():
                ended.append(execution.run_again(self.op, other))

        tuning = InterruptedTuning(self.chooser, _configs(launches), call, _configs(alone.launches))
        with self.state_for(case) as case_launches, tuning.installed():
            ending, tuned = self.execution.run_again(self.op, case)
            tuning.join()
        other_ending, other_tuned = ended[0] if ended else (None, {})
        is_comparable = tuning.all_same_configs
        return InterruptedRun(
            kernel=tuning.interrupted,
            other=difference(case, other),
            ending=case_launches.ending(ending, self.chooser.failed),
            other_ending=other_ending,
            differing=_differing(digests, tuned) if is_comparable else (),
            other_differing=_differing(other_digests, other_tuned) if is_comparable else (),
        )

    def _sweep(self, case: Case, dim: str) -> Iterator[KeySweep]:
        """Survey the case at many sizes of one dim, or at some if these tell that no argument is needless."""
        swept = {one.dims[dim]: one for one in sweep(self.op, case, dim)}
        surveyed: dict[int, Calls] = {}
        for size in telling(tuple(swept)):
            surveyed[size] = self._survey(swept[size])
            if not may_be_needless(surveyed, tuple(swept), self.op.buckets):
                return
        surveyed |= {size: self._survey(one) for size, one in swept.items() if size not in surveyed}
        yield from needless(dim, sorted(surveyed.items()), self.op.buckets)

    def _survey(self, case: Case) -> Calls:
        survey = KeySurvey(self.chooser)
        with self.state_for(case), survey.installed():
            self.execution.run_unread(self.op, case)
        return survey.calls

    def _share(self, case: Case, candidate: Candidate) -> SharedEntry:
        forced = {candidate.kernel: candidate.config}
        return SharedEntry(
            kernel=candidate.kernel,
            key=candidate.mine.key,
            config=str(candidate.config),
            other=difference(case, candidate.case),
            differing=candidate.differing,
            is_pruned=candidate.is_pruned,
            there=self._force(candidate.case, forced),
            here=self._force(case, forced),
        )

    def _force(self, case: Case, configs: Mapping[str, Any]) -> ForcedRun:
        with self.state_for(case) as case_launches, self._forced(configs):
            ending, results = self.execution.run(self.op, case)
        events = [event for event in case_launches.memory if not isinstance(event, UndefinedLanes)]
        return ForcedRun(
            ending=case_launches.ending(ending, self.chooser.failed),
            wrong=tuple(result.name for result in results if result.unwritten or not result.is_right),
            events=tuple(dict.fromkeys(_words(event) for event in events if event.site.kernel in configs)),
            builds=tuple(dict.fromkeys(launch.build for launch in case_launches.launches if launch.kernel in configs)),
        )

    @contextmanager
    def _forced(self, configs: Mapping[str, Any]) -> Generator[None]:
        self.chooser.forced = configs
        try:
            yield
        finally:
            self.chooser.forced = {}


@contextmanager
def _random_state_kept() -> Generator[None]:
    """Keep the state of the global generators, which the main thread draws from."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - as libraries do
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 - as above
        torch.set_rng_state(before[2])


def _configs(launches: Sequence[Launch]) -> tuple[tuple[str, str], ...]:
    return tuple((launch.kernel, launch.config) for launch in launches)


def _differing(alone: Mapping[str, str], tuned: Mapping[str, str]) -> tuple[str, ...]:
    """Return the results that have other bytes; none if the second run did not complete."""
    return tuple(name for name, digest in alone.items() if tuned and tuned.get(name) != digest)


def _words(event: MemoryEvent) -> str:
    site = event.site
    return f"{type(event).__name__} of {site.argument}{f' ({site.source})' if site.source else ''}"
