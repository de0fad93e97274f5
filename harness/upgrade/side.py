"""One side of an upgrade: a process tree with one of the two Tritons, which compiles kernels and runs cases.

`python -m harness.upgrade.side` reads a `SideRequest` and answers with a `SideAnswer`.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from time import monotonic

from hypothesis.configuration import set_hypothesis_home_dir

from harness import libraries, wire
from harness.compiling.build_cache import BuildCache
from harness.documents.build_matrix import BuildMatrix
from harness.errors import LibraryError, SuiteError, WorkerError
from harness.findings.triton_process import serve
from harness.matrix.collection import CollectionRequest, collection_key
from harness.matrix.measuring import make_matrix
from harness.model.case import HARNESS_FOLDER, Case
from harness.model.device import DeviceProfile
from harness.model.plan import Plan
from harness.model.run import Completed, Run
from harness.oracles.endings import describe
from harness.search.options import Options, options_of
from harness.search.session import prepared
from harness.settings import Settings
from harness.upgrade.case_records import CaseRecords, ComparedCase, RecordedCase
from harness.upgrade.engines import ORDERS_VARIABLE, Turn, UpgradeOrders, recording_choice
from harness.upgrade.judging import Judgement, judged
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import GIB, VIRTUAL_GIB, WorkerSpec

PROGRAM = "harness.upgrade.side"
PROGRESS_EVERY_S = 5.0
MEMORY_GIB = 2 * VIRTUAL_GIB


class Task(StrEnum):
    """What a side does."""

    COMPILE = "compile"
    RECORD = "record"
    COMPARE = "compare"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseToRun:
    """A case, and the folder of its records."""

    case: Case
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRequest:
    """What one side is asked for."""

    task: Task
    release: str
    """`old` or `new`: the name of its judgements."""
    plan: Plan
    project: str
    processes: int
    cases_per_op: int
    builds: str
    """The folder of the cache of builds."""
    scratch: str
    """The name of the folder of Triton's own cache: another build of a version must not find the builds of this one."""
    cases: tuple[CaseToRun, ...] = ()
    """Those to run; a compiling side draws its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideAnswer:
    """What a compiling side has made.  Records of cases are in their folders."""

    matrices: tuple[BuildMatrix, ...] = ()
    unloadable: Mapping[str, str] = field(default_factory=dict[str, str])
    """By suite, why it cannot be loaded with this Triton."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """By suite and device, as `key_name` joins them, a digest of everything that decides what cases launch."""


def key_name(suite: str, device: DeviceProfile) -> str:
    return f"{suite} {device.slug}"


def answer(request: SideRequest, settings: Settings, progress: Callable[[str], None]) -> SideAnswer:
    """Do the task.

    Raises:
        HarnessError: suites or libraries cannot be loaded with this Triton.
    """
    options = replace(
        options_of(request.plan, settings, Path(request.project)),
        processes=request.processes,
    )
    paths = libraries.resolve(options.libraries, cache=settings.cache)
    match request.task:
        case Task.COMPILE:
            return _compile(request, options, paths, progress)
        case Task.RECORD:
            _run_cases(request, options, paths, progress, Turn.RECORD)
        case Task.COMPARE:
            _run_cases(request, options, paths, progress, Turn.COMPARE)
        case Task.JUDGE:
            _run_cases(request, options, paths, progress, None)
    return SideAnswer()


def _compile(
    request: SideRequest, options: Options, paths: tuple[str, ...], progress: Callable[[str], None]
) -> SideAnswer:
    collection = CollectionRequest(options=options, library_paths=paths, cases=request.cases_per_op, specialisations=1)
    keys = {
        key_name(suite, device): collection_key(collection, suite, device)
        for suite in options.suites
        for device in options.devices
    }
    cache = BuildCache(Path(request.builds))
    try:
        return SideAnswer(matrices=(make_matrix(collection, cache, progress),), keys=keys)
    except (LibraryError, SuiteError, WorkerError):
        return _compile_separately(collection, cache, progress, keys)


def _compile_separately(
    whole: CollectionRequest, cache: BuildCache, progress: Callable[[str], None], keys: Mapping[str, str]
) -> SideAnswer:
    """Compile suite by suite, for one of them cannot be loaded."""
    matrices: list[BuildMatrix] = []
    unloadable: dict[str, str] = {}
    for suite in whole.options.suites:
        ops = tuple(op for op in whole.options.ops if op.suite == suite)
        alone = replace(whole, options=replace(whole.options, suites=(suite,), ops=ops))
        try:
            matrices.append(make_matrix(alone, cache, progress))
        except (LibraryError, SuiteError, WorkerError) as error:
            unloadable[suite] = str(error).splitlines()[0].removeprefix(f"{suite}: ")
    return SideAnswer(matrices=tuple(matrices), unloadable=unloadable, keys=keys)


def _run_cases(
    request: SideRequest,
    options: Options,
    paths: tuple[str, ...],
    progress: Callable[[str], None],
    turn: Turn | None,
) -> None:
    """Run the cases that have no record yet; without a turn they are judged."""
    pending = [each for each in request.cases if _is_pending(each, request, turn)]
    if not pending:
        return
    orders = dict(_orders(request.cases, turn or Turn.RECORD))
    ops = {op.id: op for op in options.ops}
    suites = tuple(dict.fromkeys(ops[each.case.op].suite for each in request.cases))  # others may not be loadable

    def spec_of(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(
            device=device,
            suites=suites,
            project=str(options.project),
            scratch=str(prepared(HARNESS_FOLDER) / "scratch" / request.scratch),
            library_paths=paths,
            unset=options.declared_variables,
            engine=recording_choice(options.engine).factory,
            memory_limit_bytes=GIB * MEMORY_GIB,
            environment=((ORDERS_VARIABLE, wire.to_json(orders[device])),),
        )

    pool_options = PoolOptions(is_limit_adaptive=False)
    with Pool(spec_of, request.processes, options.time_limit_s, pool_options) as pool:
        futures = [
            (each, pool.submit(each.case if turn else replace(each.case, is_exact=True)))
            for each in sorted(pending, key=lambda each: each.case.device.slug)
        ]
        for number, (each, future) in enumerate(futures, start=1):
            run, records = future.result(), CaseRecords(Path(each.folder))
            if turn is None:
                records.keep_judged(each.case.digest, request.release, judged(run, ops[each.case.op]))
            elif not isinstance(run.ending, Completed):
                _keep_death(records, each.case, run, turn)
            progress(f"{request.task}: {number} of {len(futures)} cases, last {each.case}")


def _keep_death(records: CaseRecords, case: Case, run: Run, turn: Turn) -> None:
    """Keep the ending of a case whose worker died, so that it left no record itself."""
    ending = describe(run.ending)
    if turn is Turn.RECORD:
        records.keep_recorded(case.digest, RecordedCase(ending=ending, launches=()), [])
        return
    known = records.recorded(case.digest)
    old = known.ending if known else ""
    records.keep_compared(case.digest, ComparedCase(old_ending=old, new_ending=ending, launches=()))


def _is_pending(each: CaseToRun, request: SideRequest, turn: Turn | None) -> bool:
    records = CaseRecords(Path(each.folder))
    match turn:
        case Turn.RECORD:
            return records.compared(each.case.digest) is None and records.recorded(each.case.digest) is None
        case Turn.COMPARE:
            return records.compared(each.case.digest) is None
        case None:
            return records.judged(each.case.digest, request.release, Judgement) is None


def _orders(cases: Iterable[CaseToRun], turn: Turn) -> Iterator[tuple[DeviceProfile, UpgradeOrders]]:
    folders: dict[DeviceProfile, dict[str, str]] = {}
    for each in cases:
        folders.setdefault(each.case.device, {})[each.case.op.rpartition(":")[0]] = each.folder
    for device, of_suites in folders.items():
        yield device, UpgradeOrders(turn=turn, folders=of_suites)


class _Progress:
    """Prints at most one line in `PROGRESS_EVERY_S` seconds on the error stream, which is that of the command."""

    def __init__(self, release: str) -> None:
        self._release = release
        self._last_printed = monotonic()

    def __call__(self, line: str) -> None:
        if monotonic() - self._last_printed >= PROGRESS_EVERY_S:
            self._last_printed = monotonic()
            sys.stderr.write(f"{self._release} release: {line}\n")
            sys.stderr.flush()


def main() -> int:
    """Answer one request."""
    settings = Settings.from_environment(os.environ)
    set_hypothesis_home_dir(prepared(HARNESS_FOLDER) / "hypothesis")

    def answer_text(text: str) -> SideAnswer:
        request = wire.from_json(text, SideRequest)
        return answer(request, settings, _Progress(request.release))

    return serve(answer_text)


if __name__ == "__main__":
    sys.exit(main())
