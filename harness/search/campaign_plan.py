"""The plan of a campaign: which batches it draws, and in which order.

The seed decides the plan, and nothing that depends on timing.  All ops have a batch on one device before the next
device begins: to load a library for another device takes seconds, and most bugs show on any of them.  A worker process
emulates one device profile for life, so the SM count changes between batches, never within one.  Most batches run on
the device's own SM count, the others on a few that the seed picks.  Likewise, some batches of an op have environment
variables that it declares, which its library may read at import.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from harness.model.case import Case, Environment
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import SecondRun
from harness.oracles.sm_invariance import SM_COUNTS as COMPARED_SM_COUNTS
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch

SM_COUNTS = (2, 16, 26, 48, 58, 64, 78, 84, 108, 114, 128, 132, 142, 144, 148, 152, 160, 170, 188, 192)
"""SM counts of NVIDIA GPUs and of MIG slices."""
PICKED_SM_COUNTS = 1
"""How many of them a campaign adds to the counts that `sm-invariance` compares, whose workers exist anyway."""
OTHER_SM_COUNT_EVERY = 3
"""Every third batch of an op runs on one of the other SM counts."""
ENVIRONMENT_EVERY = 3
"""Every third batch of an op that declares environment variables has some of them set."""
BATCH_SIZE = 16
EXAMPLES = 3 * BATCH_SIZE // 2
"""How many examples are drawn for a batch.  Hypothesis repeats itself: 19 to 23 examples usually hold 16 cases.

Each example costs the parent 2 ms, on the cores that cases run on.
"""

CASES_PER_SIGHTING = 40
"""Triage of one sighting takes about as long as so many cases of a search: to confirm it and to shrink it well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBudget:
    """A number of cases.  The same seed then gives the same cases."""

    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBudget:
    """A time that the search takes, or the search and its triage together."""

    seconds: float
    triage_share: float = 0.0
    """The largest part of the time that is left to triage.  0: all of it is for new cases."""

    least_triage_s: float = 0.0
    """The least time that is left to triage of any sighting, within that part."""
    cases: int | None = None
    """The most cases, even if there is time for more; None for no limit."""

    def reserve_s(self, sightings: int, cases: int, elapsed_s: float) -> float:
        """Return how long triage of so many sightings is likely to take, `triage_share` at most."""
        needed = sightings * CASES_PER_SIGHTING * elapsed_s / max(1, cases)
        least = self.least_triage_s if sightings else 0.0
        return min(self.triage_share * self.seconds, max(least, needed))


Budget = CaseBudget | TimeBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """What one campaign searches."""

    ops: tuple[Op, ...]
    devices: tuple[DeviceProfile, ...]
    """Each with the SM count that counts as its own."""
    budget: Budget
    seed: int
    fixed_sm_count: bool = False
    """True: every batch runs on the device's own SM count."""
    adds_variants: bool = False
    """True: variants of completed cases, whose kernels are compiled already, run next to the drawn cases."""
    second_runs: frozenset[SecondRun] = frozenset()
    """The second runs that every case gets that can have them; the others get them by their seeds."""
    second_runs_one_in: int = 1
    """If no kernel is autotuned, only one drawn case in so many gets `second_runs`, and no other has any by its seed.

    A divisor of `ONE_CASE_IN`.
    """
    first_cases: tuple[Case, ...] = ()
    """Run before any other, as far as the ops have such cases."""
    has_realistic_sizes: bool = False
    """True: some cases have the sizes of models."""
    avoids: bool = True
    """False: draws that `harness.search.avoidance` would drop run too, to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """A batch that is not drawn yet, because its launch feedback is still to come."""

    op: Op
    device: DeviceProfile
    seed: int
    environment: Environment = ()
    is_early: bool = False
    """True for the first batch of the op on its device."""
    second_runs: frozenset[SecondRun] = frozenset()
    """As `CampaignPlan.second_runs`."""
    second_runs_one_in: int = 1
    has_realistic_sizes: bool = False

    def batch(self, feedback: LaunchFeedback) -> Batch:
        """Return the batch that is drawn from this feedback."""
        return Batch(
            op=self.op,
            device=self.device,
            feedback=feedback,
            seed=self.seed,
            size=EXAMPLES,
            environment=self.environment,
            second_runs=self.second_runs,
            second_runs_one_in=self.second_runs_one_in,
            has_realistic_sizes=self.has_realistic_sizes,
        )


def batch_plans(plan: CampaignPlan) -> Iterator[BatchPlan]:
    """Yield the batches of a plan, without end."""
    pairs = [(op, device) for device in plan.devices for op in plan.ops]
    other_counts = {
        device.slug: () if plan.fixed_sm_count else other_sm_counts(device, plan.seed) for device in plan.devices
    }
    for turn in count():
        for op, device in pairs:
            emulated = device
            if turn % OTHER_SM_COUNT_EVERY == OTHER_SM_COUNT_EVERY - 1 and other_counts[device.slug]:
                sm_counts = other_counts[device.slug]
                emulated = device.with_sm_count(sm_counts[turn // OTHER_SM_COUNT_EVERY % len(sm_counts)])
            seed = derived_seed(plan.seed, op.portable_id, device.slug, str(turn))
            yield BatchPlan(
                op=op,
                device=emulated,
                seed=seed,
                environment=_environment(op, turn),
                is_early=not turn,
                second_runs=plan.second_runs,
                second_runs_one_in=plan.second_runs_one_in,
                has_realistic_sizes=plan.has_realistic_sizes,
            )


def _environment(op: Op, turn: int) -> Environment:
    """Return the environment of an op's batch; one of another SM count has none."""
    environments = op.environments
    if not environments or turn % ENVIRONMENT_EVERY != 1:
        return ()
    return environments[turn // ENVIRONMENT_EVERY % len(environments)]


def other_sm_counts(device: DeviceProfile, seed: int) -> tuple[int, ...]:
    """Return the SM counts other than the device's own, one of them picked by the seed."""
    compared = [sm_count for sm_count in COMPARED_SM_COUNTS if sm_count != device.sm_count]
    known = [sm_count for sm_count in SM_COUNTS if sm_count not in (*compared, device.sm_count)]
    choice = random.Random(derived_seed(seed, device.slug))  # noqa: S311 -- reproducible, not secret
    return (*compared, *choice.sample(known, PICKED_SM_COUNTS))


def derived_seed(seed: int, *parts: str) -> int:
    """Return the seed for the part of a search that `parts` name.  It is the same in every process."""
    return int.from_bytes(hashlib.sha256("/".join((str(seed), *parts)).encode()).digest()[:4])
