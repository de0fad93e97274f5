"""A hang has a message, and a signature that stays equal from run to run."""

from dataclasses import replace

import pytest

from harness.model.case import Scale
from harness.model.run import Completed, Hardware, HungParty, Overtime, TimedOut
from harness.model.verdict import Abstain, Severity
from harness.oracles.base import Evidence
from harness.oracles.completes import Completes
from tests.oracles.facts import KERNEL, LINE_431, case, judge, only_failure, run, signature


def silent(waiting: HungParty, launch: str | None = KERNEL, **more: object) -> TimedOut:
    return TimedOut(limit_s=60.0, log_tail="", waiting=waiting, launch=launch, **more)  # pyright: ignore[reportArgumentType]


CASE = case()
DEVICE = silent(HungParty.DEVICE, source=LINE_431)
COMPILER = silent(HungParty.COMPILER)
FUTEX = silent(HungParty.HOST, held_by="futex", function="norm", source=LINE_431)
FUTEX_SOMEWHERE = silent(HungParty.HOST, held_by="futex")
LOOP = silent(HungParty.HOST, launch=None, function="norm", source=LINE_431)


@pytest.mark.parametrize(
    ("ending", "engine", "said"),
    [
        (DEVICE, "cuda", "the device spins in layer_norm_bwd_kernel (layernorm.py:431)"),
        (DEVICE, "virtual", "the virtual GPU is at work on layer_norm_bwd_kernel"),
        (COMPILER, "cuda", "the compiler works on layer_norm_bwd_kernel"),
        (silent(HungParty.COMPILER, launch=None), "cuda", "the compiler works on a kernel"),
        (FUTEX, "cuda", "the host waits (futex) in norm (layernorm.py:431) after launch of layer_norm_bwd_kernel"),
        (FUTEX_SOMEWHERE, "cuda", "the host waits (futex) after launch of layer_norm_bwd_kernel"),
        (LOOP, "cuda", "the host runs on in norm (layernorm.py)"),
    ],
)
def test_the_message_of_a_hang_names_the_hung_party(ending: TimedOut, engine: str, said: str) -> None:
    fail = only_failure(Completes(), run(ending=ending, engine=engine))
    assert fail.message == f"no answer came within 60 s: {said}"


@pytest.mark.parametrize(
    ("ending", "kernel", "place"),
    [
        (DEVICE, KERNEL, "spins on the device"),
        (COMPILER, KERNEL, "compiles without end"),
        (FUTEX, "", "host waits (futex) at layernorm.py:431"),
        (FUTEX_SOMEWHERE, "", "host waits (futex) after launch of layer_norm_bwd_kernel"),
        (LOOP, "", "host runs on"),
    ],
)
def test_the_signature_of_a_hang_does_not_depend_on_the_moment(ending: TimedOut, kernel: str, place: str) -> None:
    fail = only_failure(Completes(), run(ending=ending, engine="cuda"))
    assert fail.signature == signature("completes", place, kernel=kernel)


def test_a_hang_with_more_emulated_sms_than_real_ones_is_a_warning() -> None:
    few = Hardware(name="NVIDIA H200", capability=(9, 0), sm_count=132, driver="580")
    many = replace(few, sm_count=CASE.device.sm_count)
    induced, own = (
        only_failure(Completes(), replace(run(ending=DEVICE, engine="cuda"), hardware=on)) for on in (few, many)
    )
    assert (induced.signature.severity, own.signature.severity) == (Severity.WARNING, Severity.ERROR)
    assert induced.signature.place == "spins on the device, more SMs pretended than there are"
    assert f"emulates {CASE.device.sm_count} SMs on a GPU that has 132" in induced.meaning
    assert "emulates" not in own.meaning


def test_the_message_of_a_hang_has_swallowed_exceptions() -> None:
    hidden = silent(HungParty.DEVICE, swallowed=("the autotuner of k swallowed PTXASError, for config BT: 64",))
    fail = only_failure(Completes(), run(ending=hidden, engine="cuda"))
    assert fail.message == (
        "no answer came within 60 s: the device spins in layer_norm_bwd_kernel; "
        "before, the autotuner of k swallowed PTXASError, for config BT: 64"
    )


def test_evidence_is_reported_but_not_compared() -> None:
    seen = silent(HungParty.DEVICE, evidence=("GPU utilisation 100 %, 100 %, 100 %",))
    assert seen == silent(HungParty.DEVICE)
    fail = only_failure(Completes(), run(ending=seen, engine="cuda"))
    assert fail.meaning.endswith("wait as well.  Seen: GPU utilisation 100 %, 100 %, 100 %.")


@pytest.mark.parametrize("phase", ["inputs", "reference", "compare"])
@pytest.mark.parametrize("waiting", [HungParty.HOST, HungParty.UNKNOWN])
def test_a_timeout_in_the_suite_is_no_failure_of_the_library(phase: str, waiting: HungParty) -> None:
    in_suite = run(ending=silent(waiting, launch=None, phase=phase))
    (verdict,) = Completes().judge(Evidence(run=in_suite))
    assert isinstance(verdict, Abstain)
    assert verdict.reason == f"no answer came within 60 s: the suite's own code was at work, in phase {phase}"


def test_a_timeout_of_the_library_or_the_device_is_a_failure() -> None:
    for timed_out in (silent(HungParty.HOST, phase="backward"), silent(HungParty.DEVICE, phase="compare")):
        assert only_failure(Completes(), run(ending=timed_out)).signature.severity is Severity.ERROR


def test_seconds_of_the_suite_do_not_make_the_library_slow() -> None:
    slow = replace(run(ending=Completed()), overtime=Overtime(limit_s=60.0, took_s=75.0))
    ours = replace(slow, seconds={"inputs": 1.0, "reference": 20.0, "compare": 0.5, "host": 53.0})
    (verdict,) = Completes().judge(Evidence(run=ours))
    assert verdict == Abstain(
        oracle="completes", reason="the case was slow, but 21.5 of its 75.0 s went to the suite's own code"
    )
    theirs = replace(slow, seconds={"reference": 14.0, "host": 61.0})
    assert only_failure(Completes(), theirs).signature.place == "slow"


def test_a_case_past_its_time_limit_is_a_warning() -> None:
    slow = replace(run(ending=Completed()), overtime=Overtime(limit_s=60.0, took_s=75.04))
    fail = only_failure(Completes(), slow)
    assert (fail.signature.severity, fail.signature.place) == (Severity.WARNING, "slow")
    assert fail.message == "the case completed after 75.0 s, past its time limit of 60 s"
    assert judge(Completes(), run(ending=Completed())) == ["pass"]


def test_the_emulation_of_a_long_case_may_be_slow() -> None:
    slow = replace(run(ending=Completed()), overtime=Overtime(limit_s=60.0, took_s=75.0))
    (verdict,) = Completes().judge(Evidence(run=replace(slow, case=replace(slow.case, scale=Scale.LONG))))
    assert verdict == Abstain(oracle="completes", reason="the emulation of a long case takes more than its time limit")
