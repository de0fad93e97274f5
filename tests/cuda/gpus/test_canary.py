"""What the canary notices, and what its process's end says of the GPU."""

from collections.abc import Iterator

import pytest
import torch

from harness.cuda.gpus.canary import CANNOT_ASK, Healthy, Sick, judged, sing
from harness.cuda.gpus.canary_program import given_room, kept_patterns, products, sums
from harness.cuda.gpus.child_query import Answered, QueryTimedOut, ask
from harness.cuda.gpus.inventory import torch_problem
from harness.errors import MissingPart
from tests.cuda.samples import H200

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def sound(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone()


def with_one_bit_stuck(tensor: torch.Tensor) -> torch.Tensor:
    """As memory that always holds 1 in one bit of one word."""
    there = tensor.clone()
    there.view(torch.int32).flatten()[12345] |= 1 << 22
    return there


def test_sound_memory_and_arithmetic_pass() -> None:
    assert (kept_patterns(sound), sums(sound), products(sound)) == ("", "", "")


def test_one_bit_that_is_stuck_is_noticed() -> None:
    assert kept_patterns(with_one_bit_stuck) == "1 of 16777216 words of memory came back changed"
    assert sums(with_one_bit_stuck, 1 << 20).startswith("1048576 integers were added up to ")
    assert products(with_one_bit_stuck).endswith("are wrong (float32, precision highest)")


def test_the_canarys_end_says_how_the_gpu_is() -> None:
    assert judged(Answered(status=0, out="", err="a warning")) == Healthy()
    assert judged(Answered(status=3, out="", err="RuntimeError: unspecified launch failure\n\n")) == Sick(
        reason="the canary failed: RuntimeError: unspecified launch failure"
    )
    assert judged(Answered(status=-6, out="", err="")) == Sick(
        reason="the canary was killed by signal 6: exit status -6"
    )
    assert judged(QueryTimedOut(time_limit_s=90, is_gone=False)) == Sick(
        reason="the canary gave no answer within 90 s, and it cannot be killed"
    )
    with pytest.raises(MissingPart, match="cannot ask the GPU: no torch"):
        judged(Answered(status=CANNOT_ASK, out="", err="no torch\n"))


@pytest.mark.slow
def test_without_a_torch_for_cuda_no_gpu_is_called_sick() -> None:
    if not torch_problem((99, 0)):
        pytest.skip("this torch is built with CUDA")
    with pytest.raises(MissingPart, match=r"the canary cannot ask the GPU: torch \S+ is built without CUDA"):
        sing(H200)


def test_a_gpu_whose_memory_is_full_for_a_while_is_not_sick() -> None:
    calls = 0

    def check() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 MiB")
        return ""

    assert given_room(check) == ""


def test_who_finds_no_memory_says_that_it_is_full() -> None:
    def check() -> str:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 MiB\nGPU 0 has")

    full = "its memory has been full for 0 s: CUDA out of memory. Tried to allocate 4.00 MiB"
    assert given_room(check, limit_s=0) == full


def test_what_else_goes_wrong_is_not_waited_for() -> None:
    def check() -> str:
        raise RuntimeError("CUDA error: unspecified launch failure")

    with pytest.raises(RuntimeError, match="unspecified"):
        given_room(check)


def test_a_child_that_does_not_end_is_killed() -> None:
    assert ask("harness.cuda.gpus.child_query", time_limit_s=0, environment={}) == QueryTimedOut(
        time_limit_s=0, is_gone=True
    )
