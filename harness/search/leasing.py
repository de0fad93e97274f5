"""Leases of hardware GPUs for a search, and the device profile that is used there by default."""

from collections.abc import Generator
from contextlib import contextmanager

from harness.engines.cuda.gpus.inventory import RealGpu, profile_of, real_gpus
from harness.engines.cuda.gpus.leases import holder, lease, leases_folder
from harness.model.device import DeviceProfile
from harness.settings import Settings

WAIT_S = 20.0
"""A search that has just ended may take a moment to release its GPU."""


@contextmanager
def leased(count: int | None, settings: Settings, wait_s: float = WAIT_S) -> Generator[tuple[RealGpu, ...]]:
    """Lease `count` GPUs while the block runs.  None leases all that are free, and waits for one if none is.

    Raises:
        MissingPart: the machine has no GPU for cases.
        GpuUnavailable: other processes hold them.
    """
    gpus, folder = real_gpus(), leases_folder(settings)
    if count is None:
        count = max(1, sum(not holder(gpu, folder) for gpu in gpus))
    with lease(gpus, count, wait_s, folder) as mine:
        yield mine


def own_devices(sm_count: int | None) -> tuple[DeviceProfile, ...]:
    """Return the profile of this machine's first GPU, with `sm_count` SMs unless that is None.

    Raises:
        MissingPart: the machine has no GPU for cases.
    """
    profile = profile_of(real_gpus()[0])
    return (profile if sm_count is None else profile.with_sm_count(sm_count),)
