"""Failed checks of Triton's sanitizers fail by kernel, line and kind; a pass needs proof of the checks."""

from dataclasses import replace

from harness.model.compute_sanitizer_report import Level, SanitizerRecord, Touch
from harness.model.run import Completed, Ending, Faulted, FaultOf, Run
from harness.model.triton_sanitizer_report import Differing, Exact, Instrumentation, Instrumented
from harness.model.verdict import Abstain, Severity
from harness.oracles import registry
from harness.oracles.completes import BY_TOOL, Completes
from harness.oracles.triton_sanitizer import NOT_CHECKED, TritonSanitizerClean
from tests.oracles.facts import KERNEL, LINE_431, judge, launch, only_failure, run, signature

RACE = SanitizerRecord(
    kind="gsan",
    text="Write after write race detected",
    what="Write after write race detected",
    level=Level.ERROR,
    at=Touch(direction="", kernel=KERNEL, source=LINE_431, program=(63, 0, 0), thread=(34, 0, 0)),
    count=12,
)
FAULT = Faulted(fault=FaultOf.DEVICE_ASSERT, message="device-side assert triggered", launch=KERNEL)


def checked(*records: SanitizerRecord, ending: Ending | None = None, unproven: str = "") -> Run:
    seen = Instrumented(mode=Instrumentation.GSAN, version="3.9.0", records=records, launches=1, unproven=unproven)
    return replace(run(launches=(launch(),), engine="cuda"), ending=ending or Completed(), instrumented=seen)


def test_a_failed_check_fails_by_kernel_line_and_kind() -> None:
    fail = only_failure(TritonSanitizerClean(), checked(RACE, ending=FAULT))
    assert fail.signature == signature(
        "triton-sanitizer", place="gsan: layernorm.py:431 Write after write race detected", kernel=KERNEL
    )
    assert fail.signature.severity is Severity.ERROR
    assert fail.message == (
        "gsan: Write after write race detected in 12 reports, first by program (63, 0, 0), thread (34, 0, 0) in "
        "layer_norm_bwd_kernel (layernorm.py:431)"
    )


def test_the_fault_after_a_failed_check_is_reported_once() -> None:
    assert judge(Completes(), checked(RACE, ending=FAULT)) == [f"abstain: {BY_TOOL}"]
    assert only_failure(Completes(), checked(ending=FAULT)).signature.oracle == "completes"


def test_an_accepted_record_neither_fails_nor_passes() -> None:
    accepted = replace(RACE, accepted="both store the same")
    assert judge(TritonSanitizerClean(), checked(accepted, ending=FAULT)) == [f"abstain: device assertion in {KERNEL}"]


def test_no_records_pass_only_if_each_kernel_was_checked() -> None:
    assert judge(TritonSanitizerClean(), checked()) == ["pass"]
    reason = "add_one was compiled without gsan"
    assert judge(TritonSanitizerClean(), checked(unproven=reason)) == [f"abstain: {reason}"]


SUMS = Exact(kernel=KERNEL, configs=("BT: 8", "BT: 32"), compared=("y", "dw"))


def exactly(exact: Exact | None, unproven: str = "") -> Run:
    seen = Instrumented(mode=Instrumentation.FPSAN, version="3.9.0", launches=1, exact=exact, unproven=unproven)
    return replace(run(launches=(launch(),), engine="cuda"), instrumented=seen)


def test_fpsans_bits_must_be_the_same_with_another_config() -> None:
    assert judge(TritonSanitizerClean(), exactly(SUMS)) == ["pass"]
    differs = replace(SUMS, differing=(Differing(name="dw", writer=(KERNEL, "DW")),))
    fail = only_failure(TritonSanitizerClean(), exactly(differs))
    assert fail.signature == signature("triton-sanitizer", place="fpsan: DW", kernel=KERNEL, severity=Severity.WARNING)
    assert fail.message == (
        f"fpsan: dw has other bits with configs [BT: 8] and [BT: 32] of {KERNEL}, though it is computed in integers"
    )


def test_fpsan_abstains_if_two_runs_cannot_be_compared() -> None:
    alike = replace(SUMS, configs=("BT: 8", "BT: 8"))
    assert judge(TritonSanitizerClean(), exactly(alike)) == [
        f"abstain: {KERNEL} ran with config [BT: 8] again, since the GPU refuses another"
    ]
    nothing = "abstain: no result was stored by a kernel itself"
    assert judge(TritonSanitizerClean(), exactly(replace(SUMS, compared=()))) == [nothing]
    assert judge(TritonSanitizerClean(), exactly(SUMS, unproven="a reason")) == ["abstain: a reason"]


def test_other_oracles_abstain_on_fpsans_values() -> None:
    verdicts = registry.judge_all(exactly(SUMS), {}, {})
    assert {one.oracle for one in verdicts if not isinstance(one, Abstain)} == {"triton-sanitizer"}
    assert {one.reason for one in verdicts if isinstance(one, Abstain)} == {registry.NO_VALUES}
    assert registry.paired_runs(exactly(SUMS)) == ()


def test_abstains_without_checks() -> None:
    assert judge(TritonSanitizerClean(), replace(checked(), instrumented=None)) == [f"abstain: {NOT_CHECKED}"]
