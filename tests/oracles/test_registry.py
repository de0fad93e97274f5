"""All oracles together: which oracle judges which ending, and the outcome of a case."""

from dataclasses import replace
from typing import get_args

import pytest

from harness.errors import UsageError
from harness.model.paired_run import PairedRun
from harness.model.run import (
    Completed,
    Crashed,
    Doing,
    Ending,
    Faulted,
    FaultOf,
    OutOfMemory,
    Refused,
    Run,
    TimedOut,
    Unsupported,
)
from harness.model.triton_errors import NO_ALLOCATOR
from harness.model.verdict import Fail, Outcome, Pass
from harness.oracles import registry
from harness.oracles.completes import Completes, last_words, message_class
from harness.oracles.endings import describe
from tests.oracles.facts import (
    KERNEL,
    LINE_431,
    SMALL,
    case,
    deadlocked,
    judge,
    launch,
    only_failure,
    raised,
    result,
    run,
    signature,
)

UNSUPPORTED = Unsupported(what="tt.histogram", kernel=KERNEL, source=LINE_431, triton_version="3.6.0")

ENDINGS: tuple[tuple[Ending, str | None], ...] = (
    (raised(), "completes"),
    (raised(phase="forward"), "completes"),
    (raised(phase="inputs"), None),
    (raised(phase="forward", kind="SuiteError"), None),
    (raised(phase="reference"), None),
    (raised(phase="compare"), None),
    (raised(kind="OutOfResources", config_count=1), "resources"),
    (raised(kind="OutOfResources", config_count=6), "resources"),
    (raised(NO_ALLOCATOR), "scratch-memory"),
    (Refused(message="head size above 256"), None),
    (UNSUPPORTED, None),
    (Crashed(signal="SIGSEGV", status=None, log_tail=""), "completes"),
    (TimedOut(limit_s=30.0, log_tail=""), "completes"),
    (Faulted(fault=FaultOf.ILLEGAL_ADDRESS, message="", launch=KERNEL), "completes"),
    (OutOfMemory(limit_bytes=2**30, message=""), None),
    (deadlocked(), "completes"),
)


def test_this_file_covers_every_bad_ending() -> None:
    assert {type(ending) for ending, _ in ENDINGS} | {Completed} == set(get_args(Ending))


@pytest.mark.parametrize(("ending", "judge_name"), ENDINGS)
def test_at_most_one_oracle_fails_for_each_bad_ending(ending: Ending, judge_name: str | None) -> None:
    ended = run(ending=ending, launches=(), results=())
    verdicts = registry.judge_all(ended, {}, {})
    assert [verdict.oracle for verdict in verdicts] == [oracle.name for oracle in registry.ALL]
    assert [verdict.oracle for verdict in verdicts if isinstance(verdict, Fail)] == ([judge_name] if judge_name else [])
    assert not [verdict for verdict in verdicts if isinstance(verdict, Pass)]
    assert registry.outcome(ended, verdicts) is (Outcome.FAIL if judge_name else Outcome.ABSTAIN)


def test_out_of_memory_is_described_by_limit_or_message() -> None:
    assert "the 1024 bytes that its worker may have" in describe(
        OutOfMemory(limit_bytes=1024, message="std::bad_alloc")
    )
    assert describe(OutOfMemory(limit_bytes=0, message="CUDA out of memory")) == "memory ran out: CUDA out of memory"


def test_a_good_case_passes() -> None:
    good = run()
    verdicts = registry.judge_all(good, {}, {"b1": SMALL})
    assert registry.outcome(good, verdicts) is Outcome.PASS
    assert registry.reasons(verdicts) == (
        "this case was not run at another SM count",
        "no kernel of this case is autotuned",
    )


def test_a_case_that_is_only_to_complete_passes_if_it_does() -> None:
    def judged(one: Run) -> Outcome:
        verdicts = registry.judge_all(one, {}, {}, oracles=(Completes(),))
        return registry.outcome(one, registry.without_unlaunched_passes(one, verdicts))

    refused = OutOfMemory(limit_bytes=0, message="CUDA out of memory")
    assert [judged(run()), judged(run(launches=())), judged(run(ending=refused))] == [
        Outcome.PASS,
        Outcome.ABSTAIN,
        Outcome.ABSTAIN,
    ]


def test_a_case_without_checked_promises_does_not_pass() -> None:
    empty = run(launches=(), results=())
    assert registry.outcome(empty, registry.judge_all(empty, {}, {})) is Outcome.ABSTAIN


def test_a_waived_promise_is_not_checked() -> None:
    wrong = run(results=(result(whole=3.0),))
    assert registry.outcome(wrong, registry.judge_all(wrong, {}, {})) is Outcome.FAIL
    assert registry.outcome(wrong, registry.judge_all(wrong, {}, {}, waives={"float64-values"})) is Outcome.PASS


def test_each_oracle_gets_the_paired_runs_that_it_requested() -> None:
    wants_two = run(of=case(seed=0), launches=(launch(config_count=6),))
    asked = registry.paired_runs(wants_two)
    assert asked == (case(seed=0, sm_count=1), case(seed=0, configs={KERNEL: 1}))
    others = {
        one.digest: run(
            of=one,
            launches=(launch(config_count=6, config_index=one.configs.get(KERNEL, 0)),),
            results=(result(digest=one.digest, sketch=(9.0, 9.0)),),
        )
        for one in asked
    }
    verdicts = registry.judge_all(wants_two, others, {"b1": SMALL})
    assert [verdict.oracle for verdict in verdicts if isinstance(verdict, Fail)] == [
        "sm-invariance",
        "config-invariance",
    ]


def test_a_paired_run_is_never_judged_by_itself() -> None:
    paired_run = PairedRun(case=case(), engine="virtual", ending=Completed())
    with pytest.raises(AssertionError, match="has no reference"):
        registry.judge_all(paired_run, {}, {})


def test_an_oracle_abstains_without_its_paired_run() -> None:
    alone = run(of=case(seed=0), launches=(launch(config_count=6),))
    verdicts = registry.judge_all(alone, {}, {"b1": SMALL})
    assert registry.outcome(alone, verdicts) is Outcome.PASS
    assert "this case was not run with another config" in registry.reasons(verdicts)


def test_names_are_unique_and_every_oracle_has_a_promise() -> None:
    assert len({oracle.name for oracle in registry.ALL}) == len(registry.ALL)
    assert all(oracle.promise.endswith(".") for oracle in registry.ALL)


def test_an_oracle_is_found_by_its_name() -> None:
    assert registry.find("completes").name == "completes"
    with pytest.raises(UsageError, match="unknown oracle 'write-overlp': did you mean write-overlap"):
        registry.find("write-overlp")


class TestCompletes:
    def test_the_place_of_an_exception_is_class_and_message_without_numbers(self) -> None:
        fail = only_failure(Completes(), run(ending=raised("shape [3, 64, 2] at 0x7f00ab has 12 rows, not 13")))
        assert fail.signature == signature(
            "completes", "RuntimeError: shape [#] at # has # rows, not # (layernorm.py:431)", kernel=""
        )
        assert fail.message == (
            "RuntimeError was raised in phase backward: "
            "shape [3, 64, 2] at 0x7f00ab has 12 rows, not 13 (layernorm.py:431)"
        )

    def test_the_place_of_a_compile_error_is_its_last_line(self) -> None:
        message = "at 12:8:\n    x = tl.load(p)\n    ^\nValueError('Mask argument cannot be block type')"
        assert message_class(message) == "ValueError('Mask argument cannot be block type')"

    def test_a_compile_error_in_a_called_function_says_its_cause(self) -> None:
        message = "at 12:8:\n    x = tl.load(p)\n    y = inner(x)\n        ^"
        ending = replace(raised(message, kind="CompilationError"), cause="AssertionError: assert left == right")
        fail = only_failure(Completes(), run(ending=ending))
        assert fail.signature.place == "CompilationError: y = inner(x) (layernorm.py:431)"
        assert fail.message == (
            "CompilationError was raised in phase backward: y = inner(x) (layernorm.py:431), because of "
            "AssertionError: assert left == right"
        )

    def test_the_signature_of_a_crash_has_signal_and_kernel(self) -> None:
        crashed = Crashed(signal="SIGSEGV", status=None, log_tail="", launch=KERNEL)
        fail = only_failure(Completes(), run(ending=crashed))
        assert fail.signature == signature("completes", "signal SIGSEGV")
        assert fail.message == "the process died of SIGSEGV while layer_norm_bwd_kernel was launched"

    def test_a_process_that_was_killed_from_outside_is_no_failure(self) -> None:
        killed = Crashed(signal="SIGKILL", status=None, log_tail="", launch=KERNEL)
        assert judge(Completes(), run(ending=killed)) == [
            "abstain: the process died of SIGKILL, which another process or Linux sends, "
            "as when the machine's memory is full"
        ]

    def test_a_crash_of_the_compiler_quotes_its_assertion(self) -> None:
        log = (
            "warning: slow\npython: Ops.cpp:7: Assertion `rank == 2' failed.\n\nFatal Python error: Aborted\n  File x\n"
        )
        crashed = Crashed(signal="SIGABRT", status=None, log_tail=log, launch=KERNEL, doing=Doing.COMPILED)
        fail = only_failure(Completes(), run(ending=crashed))
        assert fail.signature == signature("completes", "signal SIGABRT")
        assert fail.message == (
            "the process died of SIGABRT while layer_norm_bwd_kernel was compiled: "
            "python: Ops.cpp:7: Assertion `rank == 2' failed."
        )

    @pytest.mark.parametrize(
        ("log", "words"),
        [
            ("", ""),
            ("Fatal Python error: Aborted\n", ""),
            ("out of patience\nFatal Python error: Aborted\n", "out of patience"),
            ("LLVM ERROR: no such type\nPLEASE submit a bug report\nFatal Python error", "LLVM ERROR: no such type"),
        ],
    )
    def test_an_abort_without_an_assertion_quotes_the_last_line(self, log: str, words: str) -> None:
        assert last_words(log) == words

    def test_a_compile_error_without_text_is_named_by_its_code(self) -> None:
        message = "at 12:8:\n    x = tl.load(p)\n    y = tl.dot(x, x)\n        ^"
        assert message_class(message) == "y = tl.dot(x, x)"

    def test_the_place_of_an_exit_is_its_status(self) -> None:
        fail = only_failure(Completes(), run(ending=Crashed(signal=None, status=3, log_tail="")))
        assert (fail.signature.place, fail.message) == ("status 3", "the process left with status 3")

    def test_the_signature_of_a_hang_has_the_kernel(self) -> None:
        fail = only_failure(Completes(), run(ending=TimedOut(limit_s=30.0, log_tail="", launch=KERNEL)))
        assert fail.signature == signature("completes", "no answer")

    def test_unsupported_operations_are_described_with_their_line(self) -> None:
        assert judge(Completes(), run(ending=UNSUPPORTED)) == [
            "abstain: the engine cannot execute tt.histogram (layer_norm_bwd_kernel, layernorm.py:431; Triton 3.6.0)"
        ]

    def test_abstains_if_the_suite_fails(self) -> None:
        assert judge(Completes(), run(ending=raised("bad", kind="TypeError", phase="reference"))) == [
            "abstain: the suite failed: TypeError in phase reference: bad (layernorm.py:431)"
        ]


def test_what_cannot_be_executed_without_triton_names_no_version() -> None:
    ending = Unsupported(what="CUDA in a forked child", kernel="", source=None, triton_version="")
    assert describe(ending) == "the engine cannot execute CUDA in a forked child"
