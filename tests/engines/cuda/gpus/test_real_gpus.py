"""On hardware: inventory, health, canary and leases."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.cuda.emulation import gpu_of
from harness.engines.cuda.gpus.canary import Healthy, Sick, run_canary
from harness.engines.cuda.gpus.health import GpuHealthMonitor, utilisation
from harness.engines.cuda.gpus.inventory import ComputeMode, RealGpu, inventory, profile_of, real_gpus
from harness.engines.cuda.gpus.leases import lease
from harness.engines.cuda.gpus.symptoms import ForeignProcess, GpuSnapshot, Lost, RowRemap, Xid, XidFault, changes
from harness.engines.cuda.gpus.xid_monitor import XidMonitor
from harness.errors import GpuUnavailable, MissingPart
from harness.reports.gpu_doctor import gpu_parts
from harness.settings import Settings
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.spec import WorkerSpec
from tests.engines.cuda.samples import FakeXidSource

pytestmark = pytest.mark.gpu

needs_nvml = pytest.mark.skipif(find_spec("pynvml") is None, reason="nvidia-ml-py is not installed")

SAMPLED_S = 10.0
ROOT = Path(__file__).resolve().parents[4]
AS_TORCH_SEES_THEM = """
import json, torch

properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
print(json.dumps([
    [str(one.uuid), one.name, one.major, one.minor, one.multi_processor_count, one.shared_memory_per_block_optin,
     one.shared_memory_per_multiprocessor, one.L2_cache_size, one.regs_per_multiprocessor,
     one.max_threads_per_multi_processor, one.total_memory]
    for one in properties
]))
"""
COMPUTING = """
import sys, torch

square = torch.ones(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("computing", flush=True)
while True:
    for _ in range(50):
        square @ square
    torch.cuda.synchronize()
"""
STRAYING = """
import torch
import triton
import triton.language as tl

@triton.jit
def stray(x):
    tl.store(x + (1 << 40), 1.0)

stray[(1,)](torch.ones(1, device="cuda"))
torch.cuda.synchronize()
"""
LEASING = """
import os
import sys
from pathlib import Path

from harness.engines.cuda.gpus.inventory import real_gpus
from harness.engines.cuda.gpus.leases import lease

gpus = real_gpus()
with lease(gpus, wanted=len(gpus), wait_s=0, folder=Path(os.environ["LEASES"])):
    print("leased", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def gpus() -> tuple[RealGpu, ...]:
    try:
        return real_gpus()
    except MissingPart as missing:
        pytest.skip(str(missing))


@contextmanager
def child(program: str, **environment: str) -> Generator[subprocess.Popen[str]]:
    """Start a process and wait for its first line."""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_the_inventory_matches_torchs_in_bus_order(gpus: tuple[RealGpu, ...]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", AS_TORCH_SEES_THEM],
        env={**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [
        [
            *(gpu.uuid.partition("-")[2], gpu.name, *gpu.capability, gpu.sm_count, gpu.shared_bytes_per_block),
            *(gpu.shared_bytes_per_sm, gpu.l2_bytes, gpu.registers_per_sm, gpu.max_threads_per_sm, gpu.memory_bytes),
        ]
        for gpu in inventory().gpus
    ]
    assert ours == json.loads(run.stdout)
    assert [gpu.compute_mode for gpu in gpus] == [ComputeMode.SHARED] * len(gpus)
    assert all(gpu.driver_version and gpu.cuda_version >= (12, 0) for gpu in gpus)


def test_hidden_gpus_are_not_listed(gpus: tuple[RealGpu, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus[-1].uuid)
    assert [gpu.uuid for gpu in inventory().gpus] == [gpus[-1].uuid]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert inventory().gpus == ()
    assert "is CUDA_VISIBLE_DEVICES set" in inventory().problem


def test_a_known_model_gets_the_catalogues_profile(gpus: tuple[RealGpu, ...]) -> None:
    for gpu in gpus:
        profile = profile_of(gpu)
        assert (profile.capability, profile.sm_count) == (gpu.capability, gpu.sm_count)
        if gpu.name in {device.name for device in catalogue.devices()}:
            assert profile.with_sm_count(1) in {device.with_sm_count(1) for device in catalogue.devices()}


@needs_nvml
def test_health_reports_other_processes_and_utilisation(gpus: tuple[RealGpu, ...]) -> None:
    uuid = gpus[0].uuid
    with GpuHealthMonitor() as monitor:
        before = monitor.snapshot(uuid)
        assert isinstance(before, GpuSnapshot)
        assert before.rows is not RowRemap.FAILED
        with child(COMPUTING, CUDA_VISIBLE_DEVICES=uuid) as other:
            as_ours = monitor.snapshot(uuid)
            as_others = monitor.snapshot(uuid, ours=frozenset((os.getpid(),)))
            # NVML samples up to once a second; each query takes a few milliseconds.
            deadline = time.monotonic() + SAMPLED_S
            while (busy := utilisation(uuid)) == 0 and time.monotonic() < deadline:
                pass
        print("before", before, "as others'", as_others, "busy", busy, sep="\n")  # noqa: T201 - for manual runs
        assert isinstance(as_others, GpuSnapshot)
        news = changes(before, as_others)
        assert [change.process.pid for change in news if isinstance(change, ForeignProcess)] == [other.pid]
        assert not any(change.blames_card for change in news)
        assert isinstance(as_ours, GpuSnapshot)
        assert other.pid not in {process.pid for process in as_ours.processes}
        assert busy is None or busy > 0


@needs_nvml
def test_a_stray_access_blames_no_gpu(gpus: tuple[RealGpu, ...], tmp_path: Path) -> None:
    uuid = gpus[0].uuid
    program = tmp_path / "straying.py"  # Triton reads a kernel's source from its file
    program.write_text(STRAYING, encoding="utf-8")
    with GpuHealthMonitor() as monitor:
        observed = monitor.observe(uuid)
        before = monitor.snapshot(uuid)
        assert isinstance(before, GpuSnapshot)
        run = subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": uuid},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "illegal memory access" in run.stderr
        xids = monitor.xids()
        print("observed", observed, *xids, sep="\n")  # noqa: T201 - whether events arrive differs between machines
        assert all(xid.fault is XidFault.KERNEL for xid in xids)
        assert not any(change.blames_card for change in changes(before, monitor.snapshot(uuid)))
    assert run_canary(gpus[0]) == Healthy()


@needs_nvml
@pytest.mark.usefixtures("gpus")
def test_a_missing_gpu_is_lost() -> None:
    nowhere = "GPU-00000000-0000-0000-0000-000000000000"
    with GpuHealthMonitor() as monitor:
        assert monitor.snapshot(nowhere) == Lost(uuid=nowhere)
    assert utilisation(nowhere) is None


def test_a_gpu_that_fails_the_canary_gets_no_processes(gpus: tuple[RealGpu, ...]) -> None:
    nowhere = replace(gpus[0], uuid="GPU-00000000-0000-0000-0000-000000000000")
    said: list[str] = []
    events = FakeXidSource(*(Xid(uuid=gpu.uuid, code=79) for gpu in (nowhere, gpus[0])))
    places = GpuAssigner((nowhere, gpus[0]), said.append, XidMonitor((nowhere, gpus[0]), lambda: events))
    spec = WorkerSpec(device=profile_of(gpus[0]), suites=(), scratch="")
    assert [gpu_of(places.take(spec).environment) for _ in range(2)] == [gpus[0]] * 2
    print(*said)  # noqa: T201 - as above
    assert len(said) == 1


def test_the_canary_passes_on_every_gpu(gpus: tuple[RealGpu, ...]) -> None:
    assert [run_canary(gpu) for gpu in gpus] == [Healthy()] * len(gpus)


def test_a_canary_past_its_time_limit_means_sick(gpus: tuple[RealGpu, ...]) -> None:
    assert run_canary(gpus[0], time_limit_s=0.01) == Sick(reason="the canary gave no answer within 0.01 s")


def test_two_processes_never_share_a_gpu(gpus: tuple[RealGpu, ...], tmp_path: Path) -> None:
    with child(LEASING, LEASES=str(tmp_path)) as other:
        with (
            pytest.raises(GpuUnavailable, match=f"{gpus[0].uuid} is held by process {other.pid}"),
            lease(gpus, wanted=1, wait_s=0, folder=tmp_path),
        ):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
        with lease(gpus, wanted=len(gpus), wait_s=0, folder=tmp_path) as leased:
            assert leased == gpus


def test_the_doctor_lists_the_gpus(gpus: tuple[RealGpu, ...]) -> None:
    parts = {part.name: part for part in gpu_parts(Settings.from_environment(os.environ))}
    print(*parts.values(), sep="\n")  # noqa: T201 - as above
    assert all(gpu.uuid in parts["GPU"].found for gpu in gpus)
    assert parts["torch for the GPU"].found == "built for this driver"
