"""The context in which an op is called is an axis: drawn often where scratch memory is needed, and shrunk away."""

from collections import Counter
from dataclasses import replace

from harness.findings.region.axes import setting_changes
from harness.model.case import CallContext
from harness.model.region import AxisKind
from harness.reports.finding_text import describe
from harness.search import moves
from harness.search.campaign_statistics import Trial
from harness.search.drawn_contexts import early_contexts, in_drawn_context
from harness.search.launch_feedback import LaunchFeedback
from harness.search.sort_key import sort_key
from harness.search.strategies import early_cases
from tests.search.fakes import DEVICE, OP, SIMPLEST, facts
from tests.search.shrinks import shrink
from tests.search.test_shrinking import LIMITS, SIGNATURE

NONE, SCRATCH = LaunchFeedback(), LaunchFeedback(needs_scratch=True)
IN_THREAD = replace(SIMPLEST, context=CallContext.THREAD)
HOME = DEVICE.sm_count


def contexts_of(feedback: LaunchFeedback, cases: int = 3200) -> Counter[CallContext]:
    return Counter(in_drawn_context(OP, replace(SIMPLEST, seed=seed), feedback).context for seed in range(cases))


def test_a_quarter_of_the_cases_with_scratch_memory_leave_the_main_thread() -> None:
    counts = contexts_of(SCRATCH)
    assert set(counts) == set(CallContext)
    assert 3200 / 5 < 3200 - counts[CallContext.MAIN] < 3200 / 3
    assert counts[CallContext.SPAWNED] < 3200 / 50


def test_few_other_cases_leave_it_and_none_for_long() -> None:
    counts = contexts_of(NONE)
    assert set(counts) == set(CallContext) - {CallContext.OTHER_ALLOCATOR, CallContext.SPAWNED}
    assert 0 < 3200 - counts[CallContext.MAIN] < 3200 / 32


def test_every_context_has_an_early_case_if_scratch_memory_is_needed() -> None:
    assert [case.context for case in early_contexts(OP, SIMPLEST, SCRATCH)] == list(CallContext)[1:]
    assert list(early_contexts(OP, SIMPLEST, NONE)) == []
    assert {case.context for case in early_cases(OP, [SIMPLEST], SCRATCH)} == set(CallContext)


def test_feedback_remembers_that_a_kernel_needed_scratch_memory() -> None:
    run = facts(SIMPLEST, lambda _: False)
    launch = replace(run.launches[0], scratch_bytes=256)
    seen = LaunchFeedback.of(replace(run, launches=(launch,)))
    assert (seen | LaunchFeedback.of(run)).needs_scratch
    assert not LaunchFeedback.of(run).needs_scratch


def test_the_main_thread_is_simplest() -> None:
    assert list(moves.choices("context")(OP, SIMPLEST)) == []
    forked = replace(SIMPLEST, context=CallContext.FORKED)
    simpler = [*moves.choices("context")(OP, forked), forked]
    assert [case.context for case in simpler] == list(CallContext)[:6]
    keys = [sort_key(OP, case, HOME) for case in simpler]
    assert keys == sorted(keys)


def test_a_failure_shrinks_to_the_simplest_context_that_shows_it() -> None:
    begun = replace(SIMPLEST, dims={"T": 9, "D": 4, "G": 1}, context=CallContext.SPAWNED)
    trial = Trial(number=0, op=OP, case=begun, batch=None, home_sm_count=HOME)
    shown = shrink(trial, SIGNATURE, lambda case: case.context is not CallContext.MAIN, LIMITS)
    assert shown.case == IN_THREAD


def test_a_region_tries_each_context() -> None:
    changes = [*setting_changes(OP, IN_THREAD, facts(IN_THREAD, lambda _: False), "")]
    tried = [one for one in changes if one.axis.kind is AxisKind.CONTEXT]
    assert [one.case.context for one in tried] == list(CallContext)


def test_a_case_in_another_context_says_so() -> None:
    assert "in:fresh-thread" in str(IN_THREAD)
    assert describe(IN_THREAD).endswith("in a fresh thread")
