"""The grid of a launch, and the order in which its programs begin."""

from dataclasses import dataclass

import numpy as np

from harness.engines.virtual.numbers.elements import Array
from harness.model.case import ProgramOrder
from harness.model.device import DeviceProfile


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    x: int
    y: int
    z: int

    @property
    def programs(self) -> int:
        return self.x * self.y * self.z

    def is_launchable(self, device: DeviceProfile, threads: int) -> bool:
        """Return True if no axis exceeds the device's limit for blocks of so many threads."""
        limits = device.grid_limits(threads).values()
        return all(extent <= limit for extent, limit in zip((self.x, self.y, self.z), limits, strict=True))


def spread(count: int) -> list[int]:
    """Return the first two of `count` numbers from zero, the last two, and those at the quarters, in order."""
    candidates = {0, 1, *(count * part // 4 for part in (1, 2, 3)), count - 2, count - 1}
    return sorted(number for number in candidates if 0 <= number < count)


def program_ids(order: ProgramOrder, programs: int, seed: int) -> Array:
    """Return linear program ids in the order in which they begin; `seed` decides the shuffled order."""
    match order:
        case ProgramOrder.FORWARD:
            return np.arange(programs, dtype=np.int64)
        case ProgramOrder.REVERSED:
            return np.arange(programs - 1, -1, -1, dtype=np.int64)
        case ProgramOrder.SHUFFLED:
            return np.random.default_rng(seed).permutation(programs)
