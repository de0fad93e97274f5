"""An op is called in the thread and the context that its case names, and leaves no setting behind."""

import os
import threading
from contextvars import ContextVar

import pytest

from harness.execution.call_contexts import CallContexts
from harness.model.case import CallContext

ALLOCATOR = ContextVar("ALLOCATOR", default="none")
SEEN = {
    CallContext.MAIN: "the library's",
    CallContext.THREAD: "none",
    CallContext.BACKWARD: "none",
    CallContext.COPIED: "the library's",
    CallContext.OTHER_ALLOCATOR: "the library's",
    CallContext.FORKED: "the library's",
    CallContext.SPAWNED: "the library's",
}
IN_MAIN_THREAD = {CallContext.MAIN, CallContext.OTHER_ALLOCATOR, CallContext.FORKED, CallContext.SPAWNED}


@pytest.mark.parametrize("where", CallContext)
def test_each_context_sees_what_a_program_would_see_there(where: CallContext) -> None:
    calls = CallContexts()
    token = ALLOCATOR.set("the library's")
    try:
        seen, thread = calls.call(where, lambda: (ALLOCATOR.get(), threading.get_ident()))
    finally:
        ALLOCATOR.reset(token)
    assert seen == SEEN[where]
    assert (thread == threading.get_ident()) is (where in IN_MAIN_THREAD)


@pytest.mark.parametrize(
    "where", [one for one in CallContext if one not in {CallContext.MAIN, CallContext.FORKED, CallContext.SPAWNED}]
)
def test_what_a_call_sets_outside_the_main_thread_is_gone_afterwards(where: CallContext) -> None:
    calls = CallContexts()
    calls.call(where, lambda: ALLOCATOR.set("the case's"))
    assert calls.call(where, ALLOCATOR.get) == "none"
    assert calls.in_backward_thread(ALLOCATOR.get) == "none"


def test_a_new_thread_is_prepared_before_it_calls() -> None:
    prepared: list[int] = []
    calls = CallContexts(lambda: prepared.append(threading.get_ident()))
    for where in (CallContext.MAIN, CallContext.THREAD, CallContext.BACKWARD, CallContext.BACKWARD):
        thread = calls.call(where, threading.get_ident)
        assert (thread in prepared) is (where is not CallContext.MAIN)
    assert len(prepared) == 2


def test_an_exception_of_a_thread_reaches_the_caller() -> None:
    def fail() -> None:
        raise ZeroDivisionError("in the thread")

    for where in CallContext:
        with pytest.raises(ZeroDivisionError, match="in the thread"):
            CallContexts().call(where, fail)


def test_backward_runs_in_a_forked_child_too() -> None:
    calls = CallContexts()
    calls.in_backward_thread(threading.get_ident)
    child = os.fork()
    if child == 0:
        os._exit(calls.in_backward_thread(lambda: 7))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
