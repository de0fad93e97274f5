"""Sample GPUs and Xid events for tests without a driver."""

from dataclasses import replace

from harness.engines.cuda.gpus.inventory import ComputeMode, RealGpu
from harness.engines.cuda.gpus.symptoms import Xid

H200 = RealGpu(
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    name="NVIDIA H200",
    capability=(9, 0),
    sm_count=132,
    shared_bytes_per_block=232_448,
    shared_bytes_per_sm=233_472,
    l2_bytes=62_914_560,
    registers_per_sm=65_536,
    max_threads_per_sm=2048,
    memory_bytes=150_109_880_320,
    sm_clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    memory_bus_bits=6016,
    driver_version="580.159.03",
    cuda_version=(13, 0),
    compute_mode=ComputeMode.SHARED,
    pci_bus_id="0000:1b:00.0",
)


def several(count: int) -> tuple[RealGpu, ...]:
    """Return `count` GPUs of one model."""
    return tuple(
        replace(H200, uuid=f"GPU-{number}0000000-0000-0000-0000-000000000000", pci_bus_id=f"0000:{number}b:00.0")
        for number in range(count)
    )


class FakeXidSource:
    """Reports the given Xid events once."""

    def __init__(self, *xids: Xid) -> None:
        self._xids = xids

    def observe(self, uuid: str) -> bool:
        return any(xid.uuid == uuid for xid in self._xids)

    def xids(self) -> tuple[Xid, ...]:
        xids, self._xids = self._xids, ()
        return xids
