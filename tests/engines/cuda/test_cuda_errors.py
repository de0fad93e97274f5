"""Which faults CUDA's error messages report, whoever raises them and whatever the op refuses."""

import pytest

from harness.engines.cuda.cuda_errors import as_fault
from harness.model.run import Ending, Faulted, FaultOf, OutOfMemory, Raised, Refused

ILLEGAL = "Triton Error [CUDA]: an illegal memory access was encountered"


def raised(message: str, kind: str = "RuntimeError") -> Raised:
    return Raised(kind=kind, message=message, source=None, phase="forward", traceback="")


@pytest.mark.parametrize("ending", [raised(ILLEGAL), Refused(message=f"RuntimeError: {ILLEGAL}")])
def test_an_error_that_destroys_the_context_is_a_fault_even_if_refused(ending: Ending) -> None:
    assert as_fault(ending, "add_one") == Faulted(
        fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access was encountered", launch="add_one"
    )


@pytest.mark.parametrize(
    "message",
    [
        "Triton Error [CUDA]: out of memory",
        "CUDA error: out of memory (cuMemAlloc_v2, 2)",
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'",
    ],
)
def test_lack_of_memory_is_recognised_in_every_wording(message: str) -> None:
    full = OutOfMemory(limit_bytes=0, message=message.splitlines()[0])
    assert as_fault(raised(message), "add_one") == full
    assert as_fault(Refused(message=f"RuntimeError: {message}"), "add_one") == full


@pytest.mark.parametrize(
    "ending",
    [
        raised("CUDA error: invalid argument"),
        raised("T must be even", "ValueError"),
        Refused(message="RuntimeError: Triton Error [CUDA]: invalid argument"),
    ],
)
def test_an_error_that_the_context_survives_stays_the_librarys(ending: Ending) -> None:
    assert as_fault(ending, "add_one") == ending
