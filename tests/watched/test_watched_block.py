"""`harness.run` in Python: blocks and functions whose launches are checked, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.errors import UsageError
from harness.search import USUAL_DEVICE
from tests.watched.test_run import KERNELS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import harness

with harness.run(device="h200", sm=20) as first:
    import kernels
    import torch

    x = torch.ones(20, device="cuda")
    kernels.run(kernels.past_the_end, x)
try:
    kernels.run(kernels.past_the_end, x)  # outside any block
except RuntimeError as error:
    print(error)


@harness.run(device="h200", sm=20)
def clean():
    kernels.run(kernels.add_one, x)
    return torch.cuda.get_device_properties(0).multi_processor_count


assert clean() == 20
with harness.run(device="h200", sm=20) as second:
    kernels.run(kernels.add_one, x)
    kernels.run(kernels.past_the_end, x[:5])
print(first.launches, second.launches, len(first.findings), len(second.findings))
print(second)
with harness.run(device="h200", sm=20) as third:
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * 2)
    torch.testing.assert_close(compiled(x), torch.softmax(x, -1) * 2)
    torch.compile(lambda x: x * 2, backend="eager")(x)
print(third.launches, third.uncompiled)
try:
    harness.run(device="b200").__enter__()
except harness.errors.UsageError as error:
    print(error)
"""

pytestmark = pytest.mark.slow


def test_the_launches_of_a_block_are_checked_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    no_gpu, counts, finding, programs, refusal = done.stdout.splitlines()
    assert no_gpu.startswith("0 active drivers")
    assert counts == "1 2 1 1"
    seen = "program 0 stores 1 lane of y outside the storage, at element 5 (kernels.py:16)"
    store = "tl.store(y + at, tl.load(x + at, mask=at < N, other=0.0) + 1, mask=at < N + 1)"
    assert finding == f"error bounds: past_the_end kernels.py: {store}: {seen}"
    assert programs == "1 {'its backend is eager': 1}"
    assert refusal == "this process emulates h200 (20 SMs, sm_90): check b200 (148 SMs, sm_100) in another process"


def test_a_block_leaves_torch_and_triton_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("program_undone.py"))],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "inside": ["NVIDIA H200", True],
        "changed": [],
        "variables": [],
        "modes": True,
        "is_cuda": False,
        "again": ["NVIDIA H200", True],
        "launches": [1, 1],
        "changed_again": [],
    }


def test_a_block_takes_the_first_device_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "pyproject.toml"
    settings.touch()
    assert harness.run().device.slug == USUAL_DEVICE
    settings.write_text('[tool.kernel-harness]\ndevice = "rtx-5090,b200"\n', encoding="utf-8")
    assert harness.run().device.slug == "rtx-5090"
    with pytest.raises(UsageError, match=r"^b200,h200 names 2 GPUs: a block runs on one$"):
        harness.run("b200,h200")
