"""On hardware: the inventory beside torch's, the health of GPUs, the canary, and leases of what is really there."""

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

from harness.cuda.emulation import gpu_of
from harness.cuda.gpus.canary import Healthy, Sick, sing
from harness.cuda.gpus.health import GpuHealthMonitor, utilisation
from harness.cuda.gpus.inventory import ComputeMode, RealGpu, inventory, profile_of, real_gpus
from harness.cuda.gpus.leases import FOLDER, lease
from harness.cuda.gpus.symptoms import Company, GpuSnapshot, Lost, RowRemap, changes, is_gpus_own_fault
from harness.cuda.gpus.xid import Xid, XidFault
from harness.cuda.gpus.xid_monitor import XidMonitor
from harness.devices import catalogue
from harness.errors import GpuUnavailable, MissingPart
from harness.reports.gpu_doctor import gpu_parts
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.spec import WorkerSpec
from tests.cuda.samples import Told

pytestmark = [pytest.mark.gpu, pytest.mark.once]

needs_nvml = pytest.mark.skipif(find_spec("pynvml") is None, reason="nvidia-ml-py is not installed")

SAMPLED_S = 10.0
ROOT = Path(__file__).resolve().parents[3]
AS_TORCH_SEES_THEM = """
import json, torch

told = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
print(json.dumps([
    [str(one.uuid), one.name, one.major, one.minor, one.multi_processor_count, one.shared_memory_per_block_optin,
     one.shared_memory_per_multiprocessor, one.L2_cache_size, one.regs_per_multiprocessor,
     one.max_threads_per_multi_processor, one.total_memory]
    for one in told
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
import sys
from harness.cuda.gpus.inventory import real_gpus
from harness.cuda.gpus.leases import lease

gpus = real_gpus()
with lease(gpus, wanted=len(gpus), wait_s=0):
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
    """A process that has said its first line."""
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


def test_the_inventory_is_what_torch_sees_in_the_order_of_the_bus(gpus: tuple[RealGpu, ...]) -> None:
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


def test_what_is_not_visible_is_not_there(gpus: tuple[RealGpu, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus[-1].uuid)
    assert [gpu.uuid for gpu in inventory().gpus] == [gpus[-1].uuid]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert inventory().gpus == ()
    assert "is CUDA_VISIBLE_DEVICES set" in inventory().problem


def test_its_profile_is_the_catalogues_where_that_has_the_model(gpus: tuple[RealGpu, ...]) -> None:
    for gpu in gpus:
        profile = profile_of(gpu)
        assert (profile.capability, profile.sm_count) == (gpu.capability, gpu.sm_count)
        if gpu.name in {device.name for device in catalogue.devices()}:
            assert profile.with_sm_count(1) in {device.with_sm_count(1) for device in catalogue.devices()}


@needs_nvml
def test_health_tells_who_else_computes_on_a_gpu_and_how_busy_it_is(gpus: tuple[RealGpu, ...]) -> None:
    uuid = gpus[0].uuid
    with GpuHealthMonitor() as watch:
        before = watch.snapshot(uuid)
        assert isinstance(before, GpuSnapshot)
        assert before.rows is not RowRemap.FAILED
        with child(COMPUTING, CUDA_VISIBLE_DEVICES=uuid) as other:
            as_ours = watch.snapshot(uuid)
            as_others = watch.snapshot(uuid, ours=frozenset((os.getpid(),)))
            # Sampled up to once a second; each question takes some milliseconds.
            deadline = time.monotonic() + SAMPLED_S
            while (busy := utilisation(uuid)) == 0 and time.monotonic() < deadline:
                pass
        print("before", before, "as others'", as_others, "busy", busy, sep="\n")  # noqa: T201 - for who runs it by hand
        assert isinstance(as_others, GpuSnapshot)
        news = changes(before, as_others)
        assert [change.process.pid for change in news if isinstance(change, Company)] == [other.pid]
        assert not any(map(is_gpus_own_fault, news))
        assert isinstance(as_ours, GpuSnapshot)
        assert other.pid not in {process.pid for process in as_ours.processes}
        assert busy is None or busy > 0


@needs_nvml
def test_a_stray_access_blames_no_gpu(gpus: tuple[RealGpu, ...], tmp_path: Path) -> None:
    uuid = gpus[0].uuid
    program = tmp_path / "straying.py"  # Triton reads a kernel's source from its file
    program.write_text(STRAYING, encoding="utf-8")
    with GpuHealthMonitor() as watch:
        observed = watch.observe(uuid)
        before = watch.snapshot(uuid)
        assert isinstance(before, GpuSnapshot)
        run = subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": uuid},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "illegal memory access" in run.stderr
        xids = watch.xids()
        print("observed", observed, *xids, sep="\n")  # noqa: T201 - whether events arrive differs between machines
        assert all(xid.fault is XidFault.KERNEL for xid in xids)
        assert not any(map(is_gpus_own_fault, changes(before, watch.snapshot(uuid))))
    assert sing(gpus[0]) == Healthy()


@needs_nvml
@pytest.mark.usefixtures("gpus")
def test_a_gpu_that_is_not_there_is_lost() -> None:
    nowhere = "GPU-00000000-0000-0000-0000-000000000000"
    with GpuHealthMonitor() as watch:
        assert watch.snapshot(nowhere) == Lost(uuid=nowhere)
    assert utilisation(nowhere) is None


def test_a_gpu_that_the_canary_cannot_use_gets_no_more_processes(gpus: tuple[RealGpu, ...]) -> None:
    nowhere = replace(gpus[0], uuid="GPU-00000000-0000-0000-0000-000000000000")
    said: list[str] = []
    events = Told(*(Xid(uuid=gpu.uuid, code=79) for gpu in (nowhere, gpus[0])))
    places = GpuAssigner((nowhere, gpus[0]), said.append, XidMonitor((nowhere, gpus[0]), lambda: events))
    spec = WorkerSpec(device=profile_of(gpus[0]), suites=(), scratch="")
    assert [gpu_of(places.take(spec).environment) for _ in range(2)] == [gpus[0]] * 2
    print(*said)  # noqa: T201 - as above
    assert len(said) == 1


def test_the_canary_sings_on_every_gpu(gpus: tuple[RealGpu, ...]) -> None:
    assert [sing(gpu) for gpu in gpus] == [Healthy()] * len(gpus)


def test_a_canary_without_time_is_no_answer(gpus: tuple[RealGpu, ...]) -> None:
    assert sing(gpus[0], time_limit_s=0.01) == Sick(reason="the canary gave no answer within 0.01 s")


def test_two_processes_never_share_a_gpu(
    gpus: tuple[RealGpu, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with child(LEASING) as other:
        with (
            pytest.raises(GpuUnavailable, match=f"{gpus[0].uuid} is held by process {other.pid}"),
            lease(gpus, wanted=1, wait_s=0),
        ):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
        with lease(gpus, wanted=len(gpus), wait_s=0) as leased:
            assert leased == gpus


def test_the_doctor_finds_them(gpus: tuple[RealGpu, ...]) -> None:
    parts = {part.name: part for part in gpu_parts()}
    print(*parts.values(), sep="\n")  # noqa: T201 - as above
    assert all(gpu.uuid in parts["GPU"].found for gpu in gpus)
    assert parts["torch for the GPU"].found == "built for this driver"
