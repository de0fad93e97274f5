"""Which batches a campaign draws, in which order: decided by its seed, and by nothing that depends on timing.

Batches take the pairs of op and device in turn.  A worker process wears one profile for life, so the SM count changes
between batches, not between cases: most batches run on the device's own, the others on a few that the seed picks.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.oracles.sm_invariance import SM_COUNTS as COMPARED_SM_COUNTS
from harness.search.launch_feedback import Hints
from harness.search.strategies import Batch

SM_COUNTS = (2, 16, 26, 48, 58, 64, 78, 84, 108, 114, 128, 132, 142, 144, 148, 152, 160, 170, 188, 192)
"""Of real GPUs and of slices of them: what libraries meet in the field."""
PICKED = 1
"""So many of them in a campaign, after those whose workers the comparison between SM counts needs anyway."""
OTHERS_EVERY = 3
"""Every third batch of an op runs on one of the other SM counts."""
BATCH_SIZE = 16
EXAMPLES = 3 * BATCH_SIZE // 2
"""So many are drawn for a batch, since some of Hypothesis's examples are alike: 19 to 23 usually hold a batch's cases.

Each costs 2 ms of the parent, which takes its turn on the cores that cases run on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBudget:
    """So many cases: the same seed then gives the same cases."""

    cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBudget:
    """New cases begin for so long."""

    seconds: float


Budget = CaseBudget | TimeBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a campaign is asked to do."""

    ops: tuple[Op, ...]
    devices: tuple[DeviceProfile, ...]
    """With the SM counts that count as their own."""
    budget: Budget
    seed: int
    fixed_sm_count: bool = False
    """Keep to the devices' own SM counts."""
    kin: bool = False
    """Whether cases that launch what is compiled, surely or most likely, run beside those that are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """One batch to come; what to draw it from is known once the hints are."""

    op: Op
    device: DeviceProfile
    seed: int

    def batch(self, hints: Hints) -> Batch:
        """The batch, drawn from what launches have shown by now."""
        return Batch(op=self.op, device=self.device, hints=hints, seed=self.seed, size=EXAMPLES)


def slots(plan: Plan) -> Iterator[BatchPlan]:
    """The batches of a plan, without end."""
    pairs = [(op, device) for op in plan.ops for device in plan.devices]
    others = {device.slug: () if plan.fixed_sm_count else other_sm_counts(device, plan.seed) for device in plan.devices}
    for turn in count():
        for op, device in pairs:
            worn = device
            if turn % OTHERS_EVERY == OTHERS_EVERY - 1 and others[device.slug]:
                sm_counts = others[device.slug]
                worn = device.with_sm_count(sm_counts[turn // OTHERS_EVERY % len(sm_counts)])
            yield BatchPlan(op=op, device=worn, seed=seed_of(plan.seed, op.id, device.slug, str(turn)))


def other_sm_counts(device: DeviceProfile, seed: int) -> tuple[int, ...]:
    """A few SM counts besides the device's own, picked by the seed."""
    compared = [sm_count for sm_count in COMPARED_SM_COUNTS if sm_count != device.sm_count]
    known = [sm_count for sm_count in SM_COUNTS if sm_count not in (*compared, device.sm_count)]
    choice = random.Random(seed_of(seed, device.slug))  # noqa: S311 -- reproducible, not secret
    return (*compared, *choice.sample(known, PICKED))


def seed_of(seed: int, *parts: str) -> int:
    """The seed of a part of a search, named by `parts`: the same in every process."""
    return int.from_bytes(hashlib.sha256("/".join((str(seed), *parts)).encode()).digest()[:4])
