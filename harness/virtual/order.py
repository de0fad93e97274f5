"""In which order the programs of a launch begin."""

import numpy as np

from harness.model.case import Order
from harness.virtual.elements import Array


def program_ids(order: Order, programs: int, seed: int) -> Array:
    """Linear program ids in the order in which they begin; `seed` decides the shuffled one."""
    match order:
        case Order.FORWARD:
            return np.arange(programs, dtype=np.int64)
        case Order.REVERSED:
            return np.arange(programs - 1, -1, -1, dtype=np.int64)
        case Order.SHUFFLED:
            return np.random.default_rng(seed).permutation(programs)
