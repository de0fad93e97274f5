"""The oracle of compute-sanitizer: its records become failures by kernel, line and kind, and silence must be proven."""

from dataclasses import replace

from harness.model.compute_sanitizer_report import Level, Sanitized, SanitizerRecord, Tool, Touch
from harness.model.run import Completed, Crashed, Ending, Faulted, FaultOf, Run
from harness.model.verdict import Abstain, Severity
from harness.oracles import registry
from harness.oracles.completes import BY_TOOL, Completes
from harness.oracles.compute_sanitizer import NOT_UNDER_IT, ComputeSanitizer
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


def test_a_record_is_a_failure_by_tool_kernel_line_and_kind() -> None:
    fail = only_failure(ComputeSanitizer(), watched(OUT_OF_BOUNDS))
    assert fail.signature == signature(
        "compute-sanitizer", place="memcheck: layernorm.py:431 out of bounds write", kernel=KERNEL
    )
    assert fail.message == (
        "memcheck: Invalid __global__ write of size 4 bytes is out of bounds in 32 reports, first by "
        "program (3, 0, 0), thread (96, 0, 0) in layer_norm_bwd_kernel (layernorm.py:431)"
    )


def test_a_race_below_error_is_a_warning_that_names_both_accesses() -> None:
    read = Touch(direction="read", kernel=KERNEL, source=replace(LINE_431, line=440))
    race = replace(
        OUT_OF_BOUNDS, text="Race reported", what="race", level=Level.WARNING, count=1, others=(read,), kind="Analysis"
    )
    fail = only_failure(ComputeSanitizer(), watched(race, tool=Tool.RACECHECK))
    assert fail.signature.severity is Severity.WARNING
    assert fail.message.endswith(f"(layernorm.py:431), against read in {KERNEL} (layernorm.py:440)")


def test_a_kernel_of_torch_counts_and_is_named_as_such() -> None:
    fill = replace(OUT_OF_BOUNDS, at=Touch(direction="read", kernel="at::native::fill_kernel"), count=1)
    message = only_failure(ComputeSanitizer(), watched(fill)).message
    assert message.endswith("is out of bounds in at::native::fill_kernel, which is no Triton kernel")
    died = replace(watched(fill), launches=(), ending=Crashed(signal="SIGABRT", status=None, log_tail=""))
    assert only_failure(ComputeSanitizer(), died).message.endswith("is out of bounds in at::native::fill_kernel")


def test_silence_passes_where_the_tool_is_known_to_have_watched_to_the_end() -> None:
    assert judge(ComputeSanitizer(), watched()) == ["pass"]


def test_what_is_accepted_with_a_reason_or_mere_information_does_not_count() -> None:
    accepted = replace(OUT_OF_BOUNDS, accepted="torch pads")
    told = replace(OUT_OF_BOUNDS, level=Level.INFO)
    assert judge(ComputeSanitizer(), watched(accepted, told)) == ["pass"]


def test_silence_that_proves_nothing_abstains_with_the_reason() -> None:
    for silent, reason in (
        (run(launches=(launch(),)), NOT_UNDER_IT),
        (changed(watched(), unproven="the planted mistake was not reported"), "the planted mistake was not reported"),
        (changed(watched(), incomplete="no XML was written"), "no XML was written"),
        (replace(watched(), launches=()), "no kernel was launched"),
    ):
        assert judge(ComputeSanitizer(), silent) == [f"abstain: {reason}"]


def test_a_fault_that_memcheck_itself_brings_about_is_not_told_twice() -> None:
    assert judge(Completes(), watched(OUT_OF_BOUNDS, ending=FAULT)) == [f"abstain: {BY_TOOL}"]
    only_failure(Completes(), watched(ending=FAULT))
    only_failure(Completes(), watched(OUT_OF_BOUNDS, ending=FAULT, tool=Tool.RACECHECK))


def test_that_nobody_asked_for_it_is_a_reason_only_where_there_is_no_other() -> None:
    mute = Abstain(oracle="compute-sanitizer", reason=NOT_UNDER_IT)
    other = Abstain(oracle="bounds", reason="no kernel was launched")
    assert registry.reasons((mute, other)) == ("no kernel was launched",)
    assert registry.reasons((mute,)) == (NOT_UNDER_IT,)
