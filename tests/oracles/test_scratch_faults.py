"""Flaws of scratch memory are findings of the operation that needs it."""

from dataclasses import replace

import pytest

from harness.model.case import CallContext
from harness.model.run import AccessSite, Completed, ScratchFault, ScratchFlaw, TimedOut
from harness.model.triton_errors import NO_ALLOCATOR
from harness.oracles import scratch_buffer
from harness.oracles.scratch_buffer import NO_SCRATCH, ScratchBuffer
from harness.oracles.scratch_memory import ScratchContext, ScratchMemory
from tests.oracles.facts import KERNEL, LINE_207, case, judge, launch, only_failure, raised, run

SITE = AccessSite(kernel=KERNEL, launch=0, argument="", source=LINE_207)
NEEDED = ScratchFault(site=SITE, what=ScratchFlaw.MISSING, needed_bytes=1024, align=128, bytes_per_program=256)
ELSEWHERE = replace(NEEDED, other="in the main thread")
LAUNCHES = (launch(), replace(launch(), scratch_bytes=1024))


def test_a_missing_allocator_is_named_with_bytes_and_operation() -> None:
    ended = run(ending=raised(NO_ALLOCATOR, config_count=1), memory=(NEEDED,))
    fail = only_failure(ScratchMemory(), ended)
    assert fail.message == (
        f"{KERNEL} needs 1,024 bytes of scratch memory on sm_120 for the descriptor at layernorm.py:207, and in "
        "backward no allocator is set (layernorm.py:431)"
    )
    assert fail.signature.place == "layernorm.py:431"
    assert judge(ScratchContext(), ended) == ["abstain: RuntimeError was raised in phase backward"]


def test_an_allocator_that_is_set_elsewhere_is_a_finding_of_its_own() -> None:
    of = replace(case(), context=CallContext.THREAD)
    ended = run(of=of, ending=raised(NO_ALLOCATOR, config_count=1), memory=(ELSEWHERE,))
    fail = only_failure(ScratchContext(), ended)
    assert "and the allocator that is set in the main thread is missing in a fresh thread" in fail.message
    assert judge(ScratchMemory(), ended) == ["abstain: RuntimeError was raised in phase backward"]


@pytest.mark.parametrize("ending", [Completed(), TimedOut(limit_s=5.0, log_tail="", phase="forward")])
def test_a_swallowed_exception_is_found_however_the_case_ends(ending: Completed | TimedOut) -> None:
    fail = only_failure(ScratchMemory(), run(ending=ending, memory=(NEEDED,)))
    assert "no allocator is set; the exception was swallowed (layernorm.py:207)" in fail.message


MESSAGES = {
    ScratchFlaw.TOO_SMALL: (
        replace(NEEDED, what=ScratchFlaw.TOO_SMALL, has=256),
        "needs 1,024 bytes of scratch memory, 256 for each program and CTA, and the allocator returned 256",
    ),
    ScratchFlaw.MISALIGNED: (
        replace(NEEDED, what=ScratchFlaw.MISALIGNED, has=64),
        "begins 64 bytes beyond a multiple of 128",
    ),
    ScratchFlaw.FREED: (replace(NEEDED, what=ScratchFlaw.FREED), "(1,024 bytes) is freed before the launch"),
    ScratchFlaw.SHARED: (
        replace(NEEDED, what=ScratchFlaw.SHARED, other="argument y"),
        "(1,024 bytes) is part of argument y, which the kernel uses",
    ),
    ScratchFlaw.READ: (
        replace(NEEDED, what=ScratchFlaw.READ, other="argument y", programs=(2,)),
        "program 2 of layer_norm_bwd_kernel loads from its scratch memory through argument y before a store to it",
    ),
    ScratchFlaw.STORED: (
        replace(NEEDED, what=ScratchFlaw.STORED, other="argument y", programs=(3,), has=8),
        "stores 8 bytes through argument y into its scratch memory, first into the part of program 3",
    ),
}


def test_every_flaw_of_the_buffer_has_an_oracle() -> None:
    assert set(MESSAGES) | {ScratchFlaw.MISSING} == set(ScratchFlaw)


@pytest.mark.parametrize("flaw", MESSAGES)
def test_exactly_one_oracle_reports_each_flaw(flaw: ScratchFlaw) -> None:
    event, message = MESSAGES[flaw]
    seen = run(launches=LAUNCHES, memory=(event,))
    (oracle,) = (one for one in scratch_buffer.ORACLES if judge(one, seen) != ["pass"])
    fail = only_failure(oracle, seen)
    assert message in fail.message
    assert (fail.signature.kernel, fail.signature.place) == (KERNEL, "layernorm.py:207")


@pytest.mark.parametrize("oracle", scratch_buffer.ORACLES, ids=lambda one: one.name)
def test_a_case_that_needs_no_scratch_memory_says_nothing(oracle: ScratchBuffer) -> None:
    assert judge(oracle, run()) == [f"abstain: {NO_SCRATCH}"]
    assert judge(oracle, run(launches=LAUNCHES)) == ["pass"]
