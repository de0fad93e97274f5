"""Concerns about a GPU's state, and NVML read from a simulated driver."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.engines.cuda.gpus.health import own_processes
from harness.engines.cuda.gpus.inventory import ComputeMode
from harness.engines.cuda.gpus.symptoms import (
    ForeignProcess,
    GpuProcess,
    GpuSnapshot,
    Lost,
    MemoryErrors,
    ModeChanged,
    NotShared,
    RowRemap,
    RowRemapDue,
    Xid,
    XidFault,
    changes,
    concerns,
)
from tests.engines.cuda import simulated_driver

UUID = "GPU-01010101-0101-0101-0101-010101010101"
CALM = GpuSnapshot(
    uuid=UUID,
    processes=(),
    ecc_uncorrected=0,
    rows=RowRemap.SETTLED,
    utilisation_percent=100,
    compute_mode=ComputeMode.SHARED,
    memory_used_bytes=60,
)
STRANGER = GpuProcess(pid=4711, name="python3", memory_bytes=3 << 30)
UNSEEN = GpuProcess(pid=4712, name="", memory_bytes=None)
READING = f"""
import json, os
from harness.engines.cuda.gpus.health import GpuHealthMonitor, own_processes, utilisation
from harness.engines.cuda.gpus.symptoms import concerns

with GpuHealthMonitor() as monitor:
    facts = [
        monitor.observe("{UUID}"),
        repr(monitor.snapshot("{UUID}")),
        repr(monitor.snapshot("{UUID}", ours=frozenset((os.getppid(),)))),
        [str(xid) for xid in monitor.xids() + monitor.xids()],
        repr(monitor.snapshot("GPU-gone")),
        monitor.utilisation("GPU-gone"),
    ]
print(json.dumps([*facts, utilisation("{UUID}")]))
"""


def test_a_calm_gpu_raises_no_concern() -> None:
    assert concerns(CALM) == ()
    assert concerns(replace(CALM, ecc_uncorrected=None, rows=RowRemap.UNKNOWN, compute_mode=None)) == ()


def test_each_concern_states_the_remedy() -> None:
    seen = replace(
        CALM,
        compute_mode=ComputeMode.EXCLUSIVE,
        processes=(STRANGER, UNSEEN),
        rows=RowRemap.PENDING,
        ecc_uncorrected=2,
    )
    assert [str(concern).removeprefix(f"{UUID} ") for concern in concerns(seen)] == [
        "is in compute mode Exclusive_Process, and several processes use a GPU in turn: "
        f"sudo nvidia-smi -i {UUID} -c DEFAULT",
        "is also used by process 4711 (python3, 3.0 GiB): time limits and memory are not ours alone",
        "is also used by process 4712 (not visible from here): time limits and memory are not ours alone",
        "uses a row of memory that is to be replaced: reset it (sudo nvidia-smi -r) before trusting it",
        "met 2 memory errors that ECC could not correct: its results are not to be trusted",
    ]
    assert [type(concern) for concern in concerns(seen) if concern.blames_card] == [RowRemapDue, MemoryErrors]
    assert concerns(Lost(uuid=UUID)) == (Lost(uuid=UUID),)


def test_only_changes_for_the_worse_are_reported() -> None:
    before = replace(CALM, processes=(STRANGER,), ecc_uncorrected=2, rows=RowRemap.PENDING)
    newcomer = replace(STRANGER, pid=4713)
    after = replace(
        before,
        processes=(STRANGER, newcomer, UNSEEN),
        ecc_uncorrected=5,
        rows=RowRemap.FAILED,
        compute_mode=ComputeMode.PROHIBITED,
        utilisation_percent=3,
    )
    assert changes(before, before) == ()
    assert changes(before, after) == (
        ModeChanged(uuid=UUID, before=ComputeMode.SHARED, after=ComputeMode.PROHIBITED),
        ForeignProcess(uuid=UUID, process=newcomer),
        RowRemapDue(uuid=UUID, rows=RowRemap.FAILED),
        MemoryErrors(uuid=UUID, count=3),
    )
    assert changes(after, before) == (
        ModeChanged(uuid=UUID, before=ComputeMode.PROHIBITED, after=ComputeMode.SHARED),
        RowRemapDue(uuid=UUID, rows=RowRemap.PENDING),
    )
    assert changes(before, Lost(uuid=UUID)) == (Lost(uuid=UUID),)


def test_an_xid_has_a_likely_cause() -> None:
    faults = {code: Xid(uuid=UUID, code=code).fault for code in (31, 79, 9999)}
    assert faults == {31: XidFault.KERNEL, 79: XidFault.GPU, 9999: XidFault.EITHER}
    assert str(Xid(uuid=UUID, code=79)) == f"{UUID} reported Xid 79: the GPU has fallen off the bus"


def test_children_of_this_process_count_as_own() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= own_processes()
        assert os.getppid() not in own_processes()
        child.kill()


@pytest.mark.skipif(find_spec("pynvml") is None, reason="nvidia-ml-py is not installed")
def test_all_facts_of_nvml_are_read(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", READING],
        cwd=Path(__file__).resolve().parents[4],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(simulated_driver.build(tmp_path)),
            "SIMULATED_GPUS": "1",
            "SIMULATED_PID": str(os.getpid()),
            "SIMULATED_MODE": "3",
            "SIMULATED_XID": "31",
            "SIMULATED_ECC": "2",
            "SIMULATED_PENDING": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    observed, alone, with_us, xids, gone, gone_busy, busy = json.loads(run.stdout)
    expected = replace(CALM, ecc_uncorrected=2, rows=RowRemap.PENDING, compute_mode=ComputeMode.EXCLUSIVE)
    name = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    us = GpuProcess(pid=os.getpid(), name=name, memory_bytes=3 << 30)
    assert (observed, busy, gone_busy) == (True, 100, None)
    assert (alone, with_us) == (repr(replace(expected, processes=(us,))), repr(expected))
    assert xids == [f"{UUID} reported Xid 31: page fault of the GPU's memory, usually a stray access"]
    assert gone == repr(Lost(uuid="GPU-gone"))


def test_an_exclusive_gpu_is_a_concern() -> None:
    seen = replace(CALM, compute_mode=ComputeMode.PROHIBITED)
    assert concerns(seen) == (NotShared(uuid=UUID, mode=ComputeMode.PROHIBITED),)
