"""Memory that a kernel leaves unwritten is reported where the program computes with it, in a process of its own."""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import json
import os

import harness

with harness.run(device="h200"):
    import torch
    import triton
    import triton.language as tl


@triton.jit
def copy_kernel(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N), mask=at < N)


@triton.jit
def first_kernel(x, y, N, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.where(at < FIRST, tl.load(x + at, mask=at < N, other=0.0) + 1, 0.0), mask=at < N)


def first_of_copy(first):
    x = copied(numbers(torch.float32), 1)
    y = torch.empty_like(x)
    first_kernel[(1,)](x, y, x.numel(), FIRST=first, BLOCK=32)


def copied(x, programs):
    y = torch.empty_like(x)
    copy_kernel[(programs,)](x, y, x.numel(), BLOCK=16)
    return y


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, programs):
        ctx.programs = programs
        return copied(x, 2)

    @staticmethod
    def backward(ctx, dy):
        return copied(dy.contiguous(), ctx.programs), None


def gradient(programs):
    x = torch.ones(20, device="cuda", requires_grad=True)
    Copy.apply(x, programs).sum().backward()
    return x.grad


def numbers(dtype):
    return torch.arange(20, device="cuda").to(dtype)


def on_thread(work):
    import threading

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


WORKS = {
    "sum": lambda programs: copied(numbers(torch.float32), programs).sum(),
    "integers": lambda programs: copied(numbers(torch.int32), programs).max().item(),
    "host": lambda programs: copied(numbers(torch.bfloat16), programs).cpu().float().max(),
    "assertion": lambda programs: torch.testing.assert_close(
        copied(numbers(torch.float32), programs)[:20], numbers(torch.float32), equal_nan=True, atol=1e9, rtol=0
    ),
    "gradient": lambda programs: gradient(programs).max(),
    "thread": lambda programs: on_thread(lambda: copied(numbers(torch.float32), programs).sum()),
    "unread": lambda programs: copied(numbers(torch.float32), programs)[: 16 * programs].clone().sum(),
}
seen = {}
for name, work in WORKS.items():
    for programs in (1, 2):
        with harness.run(device="h200") as block:
            try:
                work(programs)
            except AssertionError:
                pass
        seen[f"{name} {programs}"] = [
            [str(finding.fail.signature.oracle), finding.fail.signature.kernel, finding.fail.message]
            for finding in block.findings
        ]
for first in (16, 20):
    with harness.run(device="h200") as block:
        first_of_copy(first)
    seen[f"first {first}"] = [
        [finding.severity, finding.fail.signature.kernel, finding.fail.message] for finding in block.findings
    ]
print(json.dumps(seen), flush=True)
os._exit(0)  # torch's threads may still run, and how a process ends is no subject here
"""


class Seen(NamedTuple):
    what: str
    """The oracle, or the severity of the one finding of a kernel's load."""
    kernel: str
    message: str


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Seen]]:
    """Return the findings of each block, by name and number of programs: 1 leaves 4 of 20 elements unwritten."""
    folder = tmp_path_factory.mktemp("unwritten")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return {name: [Seen(*each) for each in findings] for name, findings in found.items()}


@pytest.mark.parametrize("work", ["sum", "integers", "host", "assertion", "gradient", "thread"])
def test_computing_with_what_a_kernel_left_unwritten_fails(seen: dict[str, list[Seen]], work: str) -> None:
    (finding,) = seen[f"{work} 1"]
    assert finding[:2] == ("uninitialised-read", "copy_kernel")
    assert "4 of 20 elements, from [16] on, that nothing has written" in finding.message
    assert finding.message.endswith("copy_kernel stored there last, through y")


@pytest.mark.parametrize("work", ["sum", "integers", "host", "assertion", "gradient", "thread", "unread"])
def test_memory_that_a_kernel_fills_is_silent(seen: dict[str, list[Seen]], work: str) -> None:
    assert seen[f"{work} 2"] == []


def test_elements_that_nobody_reads_are_silent(seen: dict[str, list[Seen]]) -> None:
    assert seen["unread 1"] == []


def test_a_load_that_the_kernel_masks_afterwards_is_a_warning(seen: dict[str, list[Seen]]) -> None:
    """The input itself still holds NaN, which says nothing of what the kernel does with it."""
    assert [finding[:2] for finding in seen["first 16"]] == [("warning", "first_kernel")]
    assert [finding[:2] for finding in seen["first 20"]] == [("error", "first_kernel")]
