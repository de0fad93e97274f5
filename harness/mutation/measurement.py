"""All mutants of what some ops execute, or a sample of them, tried on several lanes at once."""

import hashlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from harness.model.op import Op
from harness.model.run import Run
from harness.mutation.mutants import Mutant
from harness.mutation.outcome import MutantOutcome
from harness.mutation.survey import Survey, survey
from harness.mutation.trial import Lane, MutationSetup
from harness.search.kernel_coverage import CoverageRequest
from harness.workers.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One mutant, where it belongs, and the ops that execute it."""

    library: Path
    mutant: Mutant
    ops: tuple[Op, ...]


def jobs(bench: MutationSetup, cases: int, ran: Callable[[Run], object]) -> tuple[Job, ...]:
    """A job for each mutant of what the ops execute, in an order that the seed decides.

    Raises:
        UsageError: nothing of the libraries is executed.
    """
    options = bench.options
    order = CoverageRequest(ops=options.ops, devices=options.devices, cases=cases, seed=options.seed)
    with Pool(bench.spec, options.processes or 1, options.time_limit_s) as pool:
        known = survey(order, pool, bench.lines, ran)
    found = known.mutants(tuple(map(Path, bench.library_paths)))
    return tuple(sorted((_job(known, *one) for one in found), key=lambda job: _place(options.seed, job.mutant)))


def attempt_all(bench: MutationSetup, todo: Iterable[Job], tried: Callable[[MutantOutcome], object]) -> None:
    """Try every mutant; `tried` is told of each, on one thread at a time, and what it raises ends it all."""
    waiting: SimpleQueue[Job] = SimpleQueue()
    for job in todo:
        waiting.put(job)
    lock, over = threading.Lock(), threading.Event()

    def work(lane: Lane) -> None:
        try:
            while not over.is_set():
                job = waiting.get_nowait()
                outcome = lane.attempt(job.library, job.mutant, job.ops)
                with lock:
                    tried(outcome)
        except Empty:
            return
        finally:
            if not waiting.empty():
                over.set()  # this lane failed: the others need not go on

    with ExitStack() as stack:
        # The lanes are closed first: what is on its way in a thread then ends at once.
        threads = stack.enter_context(ThreadPoolExecutor(thread_name_prefix="harness-mutants"))
        lanes = [stack.enter_context(Lane(bench)) for _ in range(bench.options.processes or 1)]
        stack.callback(over.set)
        for future in [threads.submit(work, lane) for lane in lanes]:
            future.result()


def _job(known: Survey, library: Path, mutant: Mutant) -> Job:
    return Job(library=library, mutant=mutant, ops=known.ops(mutant))


def _place(seed: int, mutant: Mutant) -> bytes:
    return hashlib.sha256(f"{seed}/{mutant.id}".encode()).digest()
