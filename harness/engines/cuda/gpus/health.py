"""Monitors GPUs through NVML (nvidia-ml-py): their state, other processes on them, and Xid events.

NVML creates no CUDA context, so the parent process may use it.  It is optional: without it only the canary finds a sick
GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import psutil

from harness.engines.cuda.gpus.inventory import MODES, ComputeMode
from harness.engines.cuda.gpus.symptoms import GpuProcess, GpuSnapshot, Lost, RowRemap, Xid
from harness.errors import MissingPart

INSTALL = "pip install nvidia-ml-py"
LOST = "a GPU that is lost"
"""Replaces the UUID of a GPU that has fallen off the bus and does not report it."""


class GpuHealthMonitor:
    """An NVML session, open until `close`; for one thread at a time.

    Raises:
        MissingPart: nvidia-ml-py or NVIDIA's driver is missing.
    """

    def __init__(self) -> None:
        try:
            self._nvml: Any = import_module("pynvml")
        except ImportError:
            raise MissingPart(f"the health of GPUs is not monitored: {INSTALL}") from None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise MissingPart(
                f"the health of GPUs is not monitored, since NVML does not start ({error}): "
                "it comes with NVIDIA's driver"
            ) from None
        self._events = self._query(self._nvml.nvmlEventSetCreate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Shut NVML down."""
        if self._events is not None:
            self._query(self._nvml.nvmlEventSetFree, self._events)
            self._events = None
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def observe(self, uuid: str) -> bool:
        """Report this GPU's events in `xids` from now on; return False if it has none, like MIG slices."""
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
        """Return the Xid events of observed GPUs since the last call, without waiting."""
        return tuple(self._xids())

    def snapshot(self, uuid: str, *, ours: frozenset[int] | None = None) -> GpuSnapshot | Lost:
        """Return the current state.  It leaves out the processes `ours`: by default this one and its descendants."""
        nvml = self._nvml
        if (handle := self._handle(uuid)) is None:
            return Lost(uuid=uuid)
        running = self._query(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        memory = self._query(nvml.nvmlDeviceGetMemoryInfo, handle)
        ours = own_processes() if ours is None else ours
        return GpuSnapshot(
            uuid=uuid,
            processes=tuple(_process(process) for process in running if process.pid not in ours),
            ecc_uncorrected=self._query(
                nvml.nvmlDeviceGetTotalEccErrors,
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            rows=_rows(self._query(nvml.nvmlDeviceGetRemappedRows, handle)),
            utilisation_percent=self._utilisation(handle),
            compute_mode=self._mode(handle),
            memory_used_bytes=None if memory is None else int(memory.used),
        )

    def utilisation(self, uuid: str) -> int | None:
        """Return the percentage of the last sampling interval in which a kernel ran; None if unknown."""
        handle = self._handle(uuid)
        return None if handle is None else self._utilisation(handle)

    def _utilisation(self, handle: Any) -> int | None:
        rates = self._query(self._nvml.nvmlDeviceGetUtilizationRates, handle)
        return None if rates is None else int(rates.gpu)

    def _mode(self, handle: Any) -> ComputeMode | None:
        mode = self._query(self._nvml.nvmlDeviceGetComputeMode, handle)
        return None if mode is None else MODES.get(mode, ComputeMode.EXCLUSIVE)

    def _xids(self) -> Iterator[Xid]:
        while self._events is not None:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # a time-out: there are no more events; a lost GPU: none will come
                return
            uuid = self._query(self._nvml.nvmlDeviceGetUUID, event.device) or LOST
            yield Xid(uuid=uuid, code=int(event.eventData))

    def _handle(self, uuid: str) -> Any:
        """Return NVML's handle; None if the GPU no longer exists."""
        return self._query(self._nvml.nvmlDeviceGetHandleByUUID, uuid)

    def _query(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of NVML; return None if this GPU or driver does not support it."""
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None


def utilisation(uuid: str) -> int | None:
    """Return the percentage of the last sampling interval in which a kernel ran; None if unknown."""
    try:
        monitor = GpuHealthMonitor()
    except MissingPart:
        return None
    with monitor:
        return monitor.utilisation(uuid)


def own_processes() -> frozenset[int]:
    """Return the ids of this process and its descendants."""
    this = psutil.Process()
    return frozenset((this.pid, *(child.pid for child in this.children(recursive=True))))


def _process(process: Any) -> GpuProcess:
    memory = process.usedGpuMemory
    return GpuProcess(pid=process.pid, name=_name(process.pid), memory_bytes=None if memory is None else int(memory))


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def _rows(remap: Any) -> RowRemap:
    match remap:
        case (_, _, _, failed) if failed:
            return RowRemap.FAILED
        case (_, _, pending, _) if pending:
            return RowRemap.PENDING
        case (_, _, _, _):
            return RowRemap.SETTLED
        case _:
            return RowRemap.UNKNOWN
