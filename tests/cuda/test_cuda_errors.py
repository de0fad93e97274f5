"""What CUDA's errors are taken for, whoever raised them and whatever the op refuses."""

import pytest

from harness.cuda.cuda_errors import faulted
from harness.model.run import Ending, Faulted, FaultOf, OutOfMemory, Raised, Refused

ILLEGAL = "Triton Error [CUDA]: an illegal memory access was encountered"


def raised(message: str, kind: str = "RuntimeError") -> Raised:
    return Raised(kind=kind, message=message, source=None, phase="forward", traceback="")


@pytest.mark.parametrize("ending", [raised(ILLEGAL), Refused(message=f"RuntimeError: {ILLEGAL}")])
def test_an_error_that_costs_the_context_is_a_fault_even_where_the_op_refuses_what_is_raised(ending: Ending) -> None:
    assert faulted(ending, "add_one") == Faulted(
        fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access was encountered", launch="add_one"
    )


@pytest.mark.parametrize(
    "said",
    [
        "Triton Error [CUDA]: out of memory",
        "CUDA error: out of memory (cuMemAlloc_v2, 2)",
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'",
    ],
)
def test_want_of_memory_is_that_whoever_tells_of_it(said: str) -> None:
    full = OutOfMemory(limit_bytes=0, message=said.splitlines()[0])
    assert faulted(raised(said), "add_one") == full
    assert faulted(Refused(message=f"RuntimeError: {said}"), "add_one") == full


@pytest.mark.parametrize(
    "ending",
    [
        raised("CUDA error: invalid argument"),
        raised("T must be even", "ValueError"),
        Refused(message="RuntimeError: Triton Error [CUDA]: invalid argument"),
    ],
)
def test_what_the_context_survives_stays_the_librarys(ending: Ending) -> None:
    assert faulted(ending, "add_one") == ending
