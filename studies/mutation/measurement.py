"""Mutants of the code that some ops execute, tested in parallel."""

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
from harness.search.kernel_coverage import CoverageRequest
from harness.workers.pool import Pool
from studies.mutation.mutants import Mutant
from studies.mutation.outcome import MutantOutcome
from studies.mutation.survey import Survey, survey
from studies.mutation.trial import MutantTester, MutationSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One mutant, its library, and the ops that execute it."""

    library: Path
    mutant: Mutant
    ops: tuple[Op, ...]


def jobs(setup: MutationSetup, cases: int, ran: Callable[[Run], object]) -> tuple[Job, ...]:
    """Return a job for each mutant of executed code, in an order that the seed decides.

    Raises:
        UsageError: the ops execute no kernel of the libraries.
    """
    options = setup.options
    request = CoverageRequest(ops=options.ops, devices=options.devices, cases=cases, seed=options.seed)
    with Pool(setup.spec, options.processes or 1, options.time_limit_s) as pool:
        surveyed = survey(request, pool, setup.lines, ran)
    mutants = surveyed.mutants(tuple(map(Path, setup.library_paths)))
    return tuple(
        sorted(
            (_job(surveyed, *located) for located in mutants), key=lambda job: _shuffle_key(options.seed, job.mutant)
        )
    )


def attempt_all(setup: MutationSetup, todo: Iterable[Job], tried: Callable[[MutantOutcome], object]) -> None:
    """Test every mutant; call `tried` with each outcome, on one thread at a time.

    An exception of `tried` or of a tester ends all testers and propagates.
    """
    waiting: SimpleQueue[Job] = SimpleQueue()
    for job in todo:
        waiting.put(job)
    lock, stopping = threading.Lock(), threading.Event()

    def work(tester: MutantTester) -> None:
        try:
            while not stopping.is_set():
                job = waiting.get_nowait()
                outcome = tester.test(job.library, job.mutant, job.ops)
                with lock:
                    tried(outcome)
        except Empty:
            return
        finally:
            if not waiting.empty():
                stopping.set()  # this tester failed: stop the others

    with ExitStack() as stack:
        # Testers are closed before the threads are joined, so that running cases end at once.
        threads = stack.enter_context(ThreadPoolExecutor(thread_name_prefix="harness-mutants"))
        testers = [stack.enter_context(MutantTester(setup)) for _ in range(setup.options.processes or 1)]
        stack.callback(stopping.set)
        for future in [threads.submit(work, tester) for tester in testers]:
            future.result()


def _job(surveyed: Survey, library: Path, mutant: Mutant) -> Job:
    return Job(library=library, mutant=mutant, ops=surveyed.ops(mutant))


def _shuffle_key(seed: int, mutant: Mutant) -> bytes:
    return hashlib.sha256(f"{seed}/{mutant.id}".encode()).digest()
