"""What the canary detects, and what the exit of its process means for the GPU."""

from collections.abc import Iterator

import pytest
import torch

from harness.engines.cuda.gpus.canary import (
    CANNOT_CHECK,
    Healthy,
    Sick,
    assess,
    check_memory,
    check_products,
    check_sums,
    run_canary,
    wait_for_memory,
)
from harness.engines.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.engines.cuda.gpus.inventory import torch_problem
from harness.errors import MissingPart
from tests.engines.cuda.samples import H200


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def sound(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone()


def with_one_bit_stuck(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to memory in which one bit of one word is always 1."""
    copy = tensor.clone()
    copy.view(torch.int32).flatten()[12345] |= 1 << 22
    return copy


def test_sound_memory_and_arithmetic_pass() -> None:
    assert (check_memory(sound), check_sums(sound), check_products(sound)) == ("", "", "")


def test_a_stuck_bit_is_detected() -> None:
    assert check_memory(with_one_bit_stuck) == "1 of 16777216 words of memory came back changed"
    assert check_sums(with_one_bit_stuck, 1 << 20).startswith("1048576 integers were added up to ")
    assert check_products(with_one_bit_stuck).endswith("are wrong (float32, precision highest)")


def test_the_canarys_exit_shows_the_state_of_the_gpu() -> None:
    assert assess(Answered(status=0, out="", err="a warning")) == Healthy()
    assert assess(Answered(status=3, out="", err="RuntimeError: unspecified launch failure\n\n")) == Sick(
        reason="the canary failed: RuntimeError: unspecified launch failure"
    )
    assert assess(Answered(status=-6, out="", err="")) == Sick(
        reason="the canary was killed by signal 6: exit status -6"
    )
    assert assess(QueryTimedOut(time_limit_s=90, is_gone=False)) == Sick(
        reason="the canary gave no answer within 90 s, and it cannot be killed"
    )
    with pytest.raises(MissingPart, match="cannot ask the GPU: no torch"):
        assess(Answered(status=CANNOT_CHECK, out="", err="no torch\n"))


@pytest.mark.slow
def test_without_torch_for_cuda_no_gpu_is_sick() -> None:
    if not torch_problem((99, 0)):
        pytest.skip("this torch is built with CUDA")
    with pytest.raises(MissingPart, match=r"the canary cannot ask the GPU: torch \S+ is built without CUDA"):
        run_canary(H200)


def test_a_gpu_whose_memory_is_full_for_a_while_is_healthy() -> None:
    calls = 0

    def check() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 MiB")
        return ""

    assert wait_for_memory(check) == ""


def test_full_memory_is_reported_after_the_time_limit() -> None:
    def check() -> str:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 MiB\nGPU 0 has")

    full = "its memory has been full for 0 s: CUDA out of memory. Tried to allocate 4.00 MiB"
    assert wait_for_memory(check, limit_s=0) == full


def test_other_errors_are_raised_at_once() -> None:
    def check() -> str:
        raise RuntimeError("CUDA error: unspecified launch failure")

    with pytest.raises(RuntimeError, match="unspecified"):
        wait_for_memory(check)


def test_a_child_past_its_time_limit_is_killed() -> None:
    assert ask("harness.engines.cuda.gpus.child_query", time_limit_s=0, environment={}) == QueryTimedOut(
        time_limit_s=0, is_gone=True
    )
