"""Watches GPUs through NVML (nvidia-ml-py): their state, who else uses them, and Xid events.

NVML makes no CUDA context, so the parent process may use it.  It is optional: without it cases run unwatched, and the
canary alone tells a sick GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import psutil

from harness.cuda.gpus.inventory import ComputeMode
from harness.cuda.gpus.symptoms import GpuProcess, GpuSnapshot, Lost, RowRemap
from harness.cuda.gpus.xid import Xid
from harness.errors import MissingPart

INSTALL = "pip install nvidia-ml-py"
LOST = "a GPU that is lost"
"""In the place of a UUID: one that has fallen off the bus tells none."""


class GpuHealthMonitor:
    """NVML, open until `close`; for one thread at a time.

    Raises:
        MissingPart: nvidia-ml-py or NVIDIA's driver is not there.
    """

    def __init__(self) -> None:
        try:
            self._nvml: Any = import_module("pynvml")
        except ImportError:
            raise MissingPart(f"the health of GPUs is not watched: {INSTALL}") from None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise MissingPart(
                f"the health of GPUs is not watched, since NVML does not start ({error}): it comes with NVIDIA's driver"
            ) from None
        self._events = self._told(self._nvml.nvmlEventSetCreate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let NVML go; nothing can be asked any more."""
        if self._events is not None:
            self._told(self._nvml.nvmlEventSetFree, self._events)
            self._events = None
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def observe(self, uuid: str) -> bool:
        """Have `xids` tell this GPU's events from now on; False where the GPU has none to tell, as MIG slices."""
        handle = self._handle(uuid)
        if handle is None or self._events is None:
            return False
        kinds = self._nvml.nvmlEventTypeXidCriticalError
        try:
            self._nvml.nvmlDeviceRegisterEvents(handle, kinds, self._events)
        except self._nvml.NVMLError:
            return False
        return True

    def xids(self) -> tuple[Xid, ...]:
        """The Xid events of observed GPUs since the last call; returns at once."""
        return tuple(self._xids())

    def snapshot(self, uuid: str, *, ours: frozenset[int] | None = None) -> GpuSnapshot | Lost:
        """The GPU now.  `ours` are processes that are no company: usually this one and all that descend from it."""
        nvml = self._nvml
        if (handle := self._handle(uuid)) is None:
            return Lost(uuid=uuid)
        running = self._told(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        memory = self._told(nvml.nvmlDeviceGetMemoryInfo, handle)
        ours = own_family() if ours is None else ours
        return GpuSnapshot(
            uuid=uuid,
            processes=tuple(_process(found) for found in running if found.pid not in ours),
            ecc_uncorrected=self._told(
                nvml.nvmlDeviceGetTotalEccErrors,
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            rows=_rows(self._told(nvml.nvmlDeviceGetRemappedRows, handle)),
            utilisation_percent=self._utilisation(handle),
            compute_mode=self._mode(handle),
            memory_used_bytes=None if memory is None else int(memory.used),
        )

    def utilisation(self, uuid: str) -> int | None:
        """Percent of the last sampling interval in which a kernel ran; None where the GPU does not tell."""
        handle = self._handle(uuid)
        return None if handle is None else self._utilisation(handle)

    def _utilisation(self, handle: Any) -> int | None:
        rates = self._told(self._nvml.nvmlDeviceGetUtilizationRates, handle)
        return None if rates is None else int(rates.gpu)

    def _mode(self, handle: Any) -> ComputeMode | None:
        nvml = self._nvml
        match self._told(nvml.nvmlDeviceGetComputeMode, handle):
            case None:
                return None
            case nvml.NVML_COMPUTEMODE_DEFAULT:
                return ComputeMode.SHARED
            case nvml.NVML_COMPUTEMODE_PROHIBITED:
                return ComputeMode.PROHIBITED
            case _:
                return ComputeMode.EXCLUSIVE

    def _xids(self) -> Iterator[Xid]:
        while self._events is not None:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # a time-out says that there are no more; a lost GPU, that none will come
                return
            uuid = self._told(self._nvml.nvmlDeviceGetUUID, event.device) or LOST
            yield Xid(uuid=uuid, code=int(event.eventData))

    def _handle(self, uuid: str) -> Any:
        """None where there is no such GPU any more."""
        return self._told(self._nvml.nvmlDeviceGetHandleByUUID, uuid)

    def _told(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The answer; None where this GPU, or this driver, has none."""
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


def utilisation(uuid: str) -> int | None:
    """Percent of the last sampling interval in which a kernel ran on this GPU; None where nobody can tell."""
    try:
        watch = GpuHealthMonitor()
    except MissingPart:
        return None
    with watch:
        return watch.utilisation(uuid)


def own_family() -> frozenset[int]:
    """This process and all that descend from it."""
    me = psutil.Process()
    return frozenset((me.pid, *(child.pid for child in me.children(recursive=True))))


def _process(found: Any) -> GpuProcess:
    memory = found.usedGpuMemory
    return GpuProcess(pid=found.pid, name=_name(found.pid), memory_bytes=None if memory is None else int(memory))


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def _rows(told: Any) -> RowRemap:
    match told:
        case (_, _, _, failed) if failed:
            return RowRemap.FAILED
        case (_, _, pending, _) if pending:
            return RowRemap.PENDING
        case (_, _, _, _):
            return RowRemap.SETTLED
        case _:
            return RowRemap.UNKNOWN
