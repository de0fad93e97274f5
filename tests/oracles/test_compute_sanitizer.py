"""Records of compute-sanitizer fail by kernel, line and kind; a pass needs proof that the tool checked."""

from dataclasses import replace

from harness.model.compute_sanitizer_report import Level, Sanitized, SanitizerRecord, Tool, Touch
from harness.model.run import Completed, Crashed, Ending, Faulted, FaultOf, Run
from harness.model.verdict import Abstain, Severity
from harness.oracles import registry
from harness.oracles.completes import BY_TOOL, Completes
from harness.oracles.compute_sanitizer import NOT_UNDER_IT, ComputeSanitizerClean
from tests.oracles.facts import KERNEL, LINE_431, judge, launch, only_failure, run, signature

OUT_OF_BOUNDS = SanitizerRecord(
    kind="Precise",
    text="Invalid __global__ write of size 4 bytes is out of bounds",
    what="out of bounds write",
    level=Level.ERROR,
    at=Touch(direction="write", kernel=KERNEL, source=LINE_431, program=(3, 0, 0), thread=(96, 0, 0)),
    count=32,
)
FAULT = Faulted(fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access was encountered", launch=KERNEL)


def watched(*records: SanitizerRecord, ending: Ending | None = None, tool: Tool = Tool.MEMCHECK) -> Run:
    plain = run(launches=(launch(),), engine="cuda")
    seen = Sanitized(tool=tool, version="2025.3.1.0", records=records, launches=1)
    return replace(plain, ending=ending or Completed(), sanitizer=seen)


def changed(plain: Run, **changes: object) -> Run:
    assert plain.sanitizer is not None
    return replace(plain, sanitizer=replace(plain.sanitizer, **changes))


def test_a_record_fails_by_tool_kernel_line_and_kind() -> None:
    fail = only_failure(ComputeSanitizerClean(), watched(OUT_OF_BOUNDS))
    assert fail.signature == signature(
        "compute-sanitizer", place="memcheck: layernorm.py:431 out of bounds write", kernel=KERNEL
    )
    assert fail.message == (
        "memcheck: Invalid __global__ write of size 4 bytes is out of bounds in 32 reports, first by "
        "program (3, 0, 0), thread (96, 0, 0) in layer_norm_bwd_kernel (layernorm.py:431)"
    )


def test_a_race_warning_names_both_accesses() -> None:
    read = Touch(direction="read", kernel=KERNEL, source=replace(LINE_431, line=440))
    race = replace(
        OUT_OF_BOUNDS, text="Race reported", what="race", level=Level.WARNING, count=1, others=(read,), kind="Analysis"
    )
    fail = only_failure(ComputeSanitizerClean(), watched(race, tool=Tool.RACECHECK))
    assert fail.signature.severity is Severity.WARNING
    assert fail.message.endswith(f"(layernorm.py:431), against read in {KERNEL} (layernorm.py:440)")


def test_a_kernel_of_torch_fails_with_a_remark() -> None:
    fill = replace(OUT_OF_BOUNDS, at=Touch(direction="read", kernel="at::native::fill_kernel"), count=1)
    message = only_failure(ComputeSanitizerClean(), watched(fill)).message
    assert message.endswith("is out of bounds in at::native::fill_kernel, which is no Triton kernel")
    died = replace(watched(fill), launches=(), ending=Crashed(signal="SIGABRT", status=None, log_tail=""))
    assert only_failure(ComputeSanitizerClean(), died).message.endswith("is out of bounds in at::native::fill_kernel")


def test_no_records_pass_if_the_tool_demonstrably_checked() -> None:
    assert judge(ComputeSanitizerClean(), watched()) == ["pass"]


def test_accepted_records_and_information_do_not_count() -> None:
    accepted = replace(OUT_OF_BOUNDS, accepted="torch pads")
    information = replace(OUT_OF_BOUNDS, level=Level.INFO)
    assert judge(ComputeSanitizerClean(), watched(accepted, information)) == ["pass"]


def test_no_records_without_proof_abstain_with_the_reason() -> None:
    for silent, reason in (
        (run(launches=(launch(),)), NOT_UNDER_IT),
        (changed(watched(), unproven="the planted mistake was not reported"), "the planted mistake was not reported"),
        (changed(watched(), incomplete="no XML was written"), "no XML was written"),
        (replace(watched(), launches=()), "no kernel was launched"),
    ):
        assert judge(ComputeSanitizerClean(), silent) == [f"abstain: {reason}"]


def test_a_fault_caused_by_memcheck_is_not_reported_twice() -> None:
    assert judge(Completes(), watched(OUT_OF_BOUNDS, ending=FAULT)) == [f"abstain: {BY_TOOL}"]
    only_failure(Completes(), watched(ending=FAULT))
    only_failure(Completes(), watched(OUT_OF_BOUNDS, ending=FAULT, tool=Tool.RACECHECK))


def test_tools_that_were_not_requested_are_no_reason_if_others_exist() -> None:
    mute = Abstain(oracle="compute-sanitizer", reason=NOT_UNDER_IT)
    other = Abstain(oracle="bounds", reason="no kernel was launched")
    assert registry.reasons((mute, other)) == ("no kernel was launched",)
    assert registry.reasons((mute,)) == (NOT_UNDER_IT,)
