"""Syntax trees are made in any thread, and in forked children."""

import ast
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

from harness import syntax_trees
from harness.syntax_trees import expression_of, module_of

THREADS = 4


class Cyclic:
    """Can only be freed by a garbage collection, and lets other threads run then."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(200):
            pass


def test_finalizers_may_run_while_threads_make_trees() -> None:
    text = Path(ast.__file__).read_text(encoding="utf-8")
    before = sys.getswitchinterval()

    def make_trees() -> int:
        for _ in range(15):
            _ = [Cyclic() for _ in range(300)]
            module_of(text)
        return 1

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            assert sum(pool.map(lambda _: make_trees(), range(THREADS))) == THREADS
    finally:
        sys.setswitchinterval(before)


def test_a_child_makes_trees_that_another_thread_was_making() -> None:
    holds, may_end = Event(), Event()

    def hold() -> None:
        with syntax_trees._lock:
            holds.set()
            may_end.wait()

    thread = Thread(target=hold)
    thread.start()
    holds.wait()
    child = os.fork()
    if not child:
        os._exit(isinstance(expression_of("1 + 1"), ast.BinOp))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    may_end.set()
    thread.join()
    assert status == 1
