"""The real GPUs that a search has for itself, and which device is pretended there when none is named."""

from collections.abc import Generator
from contextlib import contextmanager

from harness.cuda.gpus.inventory import RealGpu, profile_of, real_gpus
from harness.cuda.gpus.leases import holder, lease
from harness.model.device import DeviceProfile

WAIT_S = 20.0
"""A search that has just ended may take a moment to let go of its GPU."""


@contextmanager
def leased(wanted: int | None, wait_s: float = WAIT_S) -> Generator[tuple[RealGpu, ...]]:
    """So many GPUs for as long as the block runs; where None, all that are free, or the first that is.

    Raises:
        MissingPart: the machine has no GPU for cases.
        GpuUnavailable: others hold them.
    """
    gpus = real_gpus()
    if wanted is None:
        wanted = max(1, sum(not holder(gpu) for gpu in gpus))
    with lease(gpus, wanted, wait_s) as mine:
        yield mine


def own_devices(sm_count: int | None) -> tuple[DeviceProfile, ...]:
    """The profile of this machine's first GPU, with another SM count where one is given.

    Raises:
        MissingPart: the machine has no GPU for cases.
    """
    profile = profile_of(real_gpus()[0])
    return (profile if sm_count is None else profile.with_sm_count(sm_count),)
