"""The choice of cases that call their op elsewhere than in the main thread.

What differs there is mostly Triton's allocator.  So ops whose kernels need scratch memory get many such cases, and
other ops a few, in contexts that cost next to nothing.  A drawn case decides by itself, by its digest: no draw of
Hypothesis depends on it, so the other settings of cases stay as they were.
"""

from collections.abc import Iterator
from dataclasses import replace

from harness.model.case import IN_CHILDREN, CallContext, Case, Scale
from harness.model.op import Op
from harness.search.launch_feedback import LaunchFeedback

WITH_SCRATCH_ONE_IN = 4
"""One case in so many, of an op whose kernels need scratch memory."""
ONE_IN = 64
"""The same for other ops."""
QUICK = (CallContext.THREAD, CallContext.BACKWARD, CallContext.COPIED, CallContext.FORKED)
ALL = (*(QUICK * 4), *((CallContext.OTHER_ALLOCATOR,) * 3), CallContext.SPAWNED)
"""Contexts to choose from with scratch memory.  A spawned child takes seconds, since it loads everything again."""


def in_drawn_context(op: Op, case: Case, feedback: LaunchFeedback) -> Case:
    """Return the case, perhaps in another context; equal cases get equal ones."""
    if case.scale is not Scale.USUAL:
        return case
    number = int(op.seed_digest(case), 16)
    one_in, contexts = (WITH_SCRATCH_ONE_IN, ALL) if feedback.needs_scratch else (ONE_IN, QUICK)
    context = contexts[number // one_in % len(contexts)]
    return case if number % one_in or not _is_possible(op, context) else replace(case, context=context)


def early_contexts(op: Op, case: Case, feedback: LaunchFeedback) -> Iterator[Case]:
    """Yield the case in every other context, if kernels of its op need scratch memory."""
    if feedback.needs_scratch:
        for context in CallContext:
            if context is not CallContext.MAIN and _is_possible(op, context):
                yield replace(case, context=context)


def _is_possible(op: Op, context: CallContext) -> bool:
    return op.forks or context not in IN_CHILDREN
