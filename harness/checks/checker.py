"""The checker: checks candidates one after another, with processes that stay warm.

A check samples the arguments in a worker, writes a suite, searches it for failures as `harness fuzz` does, and lets the
referee compare kept outputs of cases that passed.  Every part that runs code of others runs in a process that may die.
"""

import hashlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock

from harness import wire
from harness.checks.answers.answer import NO_BACKWARD, Answer
from harness.checks.answers.sampled_task import SampledDim, SampledTask, SampleOrder
from harness.checks.check_suites import (
    FORWARD,
    REFEREE,
    SAMPLES,
    write_referee_suite,
    write_sample_suite,
    write_suite,
)
from harness.checks.check_verdict import CandidateFlaw, CheckVerdict, Ruling
from harness.checks.code_places import CheckedCode, Code, checked_code
from harness.checks.flaws import Evidences, counts_as_flaw, flaws_of, obstacle, replaced_names
from harness.checks.long_samples import MOST_ELEMENTS, longer_than_sampled
from harness.errors import UsageError, WorkerError
from harness.findings import store
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.model.case import HARNESS_FOLDER, Case, DType, GradMode, Scale, ValueDistribution
from harness.model.device import DeviceProfile
from harness.model.flaw_kind import FlawKind
from harness.model.op import Op
from harness.model.paired_run import PairedRun, RunRequest, SecondRun
from harness.model.run import Completed, Raised, Refused, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.traits import Need
from harness.reports.finding_text import Sources, quoted, render
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.options import Options, load_devices
from harness.search.plan import CaseBudget
from harness.search.session import Session, prepared
from harness.search.sort_key import values_of
from harness.search.strategies import scouts
from harness.settings import Settings
from harness.suite import load_suite
from harness.suite_files import named_in_project, project_of
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.time_limits import Patience

CHECKS = HARNESS_FOLDER / "checks"
USUAL_DEVICE = "h200"
USUAL_CASES = 20
TIME_LIMIT_S = 20.0
LEAST_RUNS = 4
"""A check does not end earlier: all zeros in one case may be chance."""
REFEREED = 4
"""How many cases that passed the referee looks at."""

Sizes = Mapping[str, Sequence[int]]


class Checker:
    """A context manager that checks candidates.  One check at a time runs in it; a checker belongs to one thread."""

    def __init__(  # noqa: PLR0913 - keywords of a user's call
        self,
        *,
        devices: str = USUAL_DEVICE,
        cases: int = USUAL_CASES,
        time_limit_s: float = TIME_LIMIT_S,
        resources: bool = False,
        other_sm_counts: bool = False,
        stops_at_flaw: bool = True,
        stores_findings: bool = False,
        settings: Settings | None = None,
    ) -> None:
        """Start nothing yet: the first check starts the processes.

        Args:
            devices: GPUs to emulate, as `--device` of `harness fuzz` takes them.
            cases: drawn cases of each check, over all devices.  A few of rare values and long dims are added.
            time_limit_s: the time limit of one case, in seconds.
            resources: also compile each kernel for the devices, and check that it fits them.
            other_sm_counts: also repeat a case on another SM count, in a process of its own.
            stops_at_flaw: a check ends at its first failure.
            stores_findings: failures are stored as findings, for `harness replay`.
            settings: of the process; by default those of an empty environment.

        Raises:
            UsageError: a device does not exist.
        """
        self._devices = load_devices(devices, None)
        self._cases = cases
        self._time_limit_s = time_limit_s
        self._oracles = registry.names_with(
            lambda traits: (
                (resources or Need.RESOURCES not in traits.needs)  # the whole compiler takes a second for each kernel
                and (other_sm_counts or traits.second_run is not SecondRun.SM_COUNT)
            )
        )
        self._stops = stops_at_flaw
        self._stores = stores_findings
        self._settings = settings or Settings()
        self._zygotes = SharedZygotes()
        self._tasks: dict[tuple[object, ...], SampledTask] = {}
        self._project = project_of(Path.cwd())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._zygotes.close()

    def check(  # noqa: PLR0913 - keywords of a user's call
        self,
        new: Code,
        reference: Code | None = None,
        inputs: Code | None = None,
        *,
        sizes: Sizes | None = None,
        cases: int | None = None,
        seed: int | None = None,
    ) -> CheckVerdict:
        """Check a candidate against its reference.

        Args:
            new: a function, `module:function` or `file.py:function`; or a file with `ModelNew`.
            reference: the same; or a file with `Model`, `get_inputs` and `get_init_inputs`, by default `new`.
            inputs: a function that returns the arguments of one call, or a list of several; none with models.
            sizes: the sizes of some dims, by the size in the sample: `{"128": (64, 127)}`.
            cases: by default those of the checker.
            seed: equal seeds draw equal cases; by default one that nobody knows beforehand.

        Raises:
            UsageError: a file or function does not exist, or the samples cannot be generalised.
            HarnessError: the harness cannot work here, for example because the disk is full.
        """
        begun = time.monotonic()
        code = checked_code(new, reference, inputs)
        seed = secrets.randbelow(2**32) if seed is None else seed
        one = _Check(self, code, sizes or {}, cases or self._cases, seed)
        verdict = one.run()
        return replace(verdict, seconds=round(time.monotonic() - begun, 3))

    def session_options(self, suite: str, ops: tuple[Op, ...], cases: int, seed: int) -> Options:
        return Options(
            suites=(suite,),
            ops=ops,
            devices=self._devices,
            budget=CaseBudget(cases=cases),
            seed=seed,
            project=self._project,
            oracles=self._oracles,
            fixed_sm_count=True,
            time_limit_s=self._time_limit_s,
            settings=self._settings,
        )

    @property
    def devices(self) -> tuple[DeviceProfile, ...]:
        return self._devices

    @property
    def zygotes(self) -> SharedZygotes:
        return self._zygotes

    @property
    def project(self) -> Path:
        return self._project

    @property
    def stops(self) -> bool:
        return self._stops

    @property
    def stores(self) -> bool:
        return self._stores

    def pool(self, suite: str) -> Pool:
        """Return a pool of one process for a suite that is no search's."""

        def spec_of(device: DeviceProfile) -> WorkerSpec:
            scratch = str(prepared(HARNESS_FOLDER) / "scratch")
            return WorkerSpec(device=device, suites=(suite,), project=str(self._project), scratch=scratch)

        return Pool(cache(spec_of), 1, self._time_limit_s, PoolOptions(shared_zygotes=self._zygotes))

    def task(self, order: SampleOrder, folder: Path, key: tuple[object, ...]) -> SampledTask:
        """Return what the samples tell, asked for once for each content of the files.

        Raises:
            UsageError: the samples cannot be generalised.
        """
        if key not in self._tasks:
            self._tasks[key] = self._sampled(order, folder)
        return self._tasks[key]

    def _sampled(self, order: SampleOrder, folder: Path) -> SampledTask:
        path = folder / f"{SAMPLES}.py"
        write_sample_suite(path, order)
        suite = named_in_project(str(path))
        case = Case(op=f"{suite}:{SAMPLES}", dims={}, dtype=DType.FP32, device=self._devices[0])
        with self.pool(suite) as pool:
            run = pool.run(case, patience=Patience.HURRIED)
        place = f"{order.inputs[0] or order.inputs[1]}:{order.inputs[2]}"
        match run.ending:
            case Completed():
                task = wire.from_json(Path(order.result).read_text(encoding="ascii"), SampledTask)
            case Raised(kind=kind, message=message):
                raise UsageError(f"{place}: {kind}: {message}")
            case ending:
                raise UsageError(f"{place} gives no sample: its process ended so: {ending}")
        if task.problem:
            raise UsageError(f"{place}: {task.problem}")
        return task


ATTEMPTS = 2
"""How often a check begins whose processes fail without a flaw of the candidate."""


class _Check:
    """One check of one candidate."""

    def __init__(self, checker: Checker, code: CheckedCode, sizes: Sizes, cases: int, seed: int) -> None:
        self._checker = checker
        self._code = code
        self._cases = cases
        self._seed = seed
        self._declared = tuple((name, tuple(values)) for name, values in sizes.items())
        identity = hashlib.sha256(f"{code}{self._declared}".encode()).hexdigest()[:10]
        self._folder = prepared(HARNESS_FOLDER) and CHECKS / identity
        self._folder.mkdir(parents=True, exist_ok=True)
        self._outputs = (self._folder / "outputs").absolute()
        self._seen = Evidences()
        self._lock = threading.Lock()
        self._notes: list[str] = []
        self._has_flaw = False

    def run(self) -> CheckVerdict:
        """Check it, after other processes are done that check the same candidate here."""
        with FileLock(self._folder / "lock"):
            return self._run()

    def _run(self) -> CheckVerdict:
        answer = Answer(
            candidate=self._code.candidate,
            reference=self._code.reference,
            init_inputs=self._code.init_inputs,
            weights_seed=self._seed,
            folder=str(self._outputs),
        )
        contents = self._contents()
        inputs = self._code.inputs
        order = SampleOrder(
            answer=replace(answer, folder="", weights_seed=0),
            inputs=(inputs.file, inputs.module, inputs.name),
            declared=self._declared,
            result=str((self._folder / "task.json").absolute()),
        )
        key = (self._code.reference, inputs, self._code.init_inputs, self._declared, self._reference_contents())
        task = self._checker.task(order, self._folder, key)
        widened = [given.name for given in task.inputs if given.is_widened]
        self._notes += [f"{name}: numbers of any sign, since the reference is finite for them" for name in widened]
        shutil.rmtree(self._outputs, ignore_errors=True)
        path = self._folder / "candidate.py"
        name = write_suite(path, answer, task)
        suite = named_in_project(str(path))
        ops = {op.name: op for op in load_suite(suite, self._checker.project)}
        statistics, flaws, reason = CampaignStatistics(), tuple[CandidateFlaw, ...](), ""
        for _ in range(ATTEMPTS):
            reason = ""
            try:
                statistics = self._search(suite, ops[name], ops[f"{name}{FORWARD}"])
                flaws = flaws_of(self._seen)
                if not flaws and statistics.passed:
                    flaws = self._referee(answer, task)
            except WorkerError as error:  # the candidate may have destroyed what the processes need
                flaws, reason = flaws_of(self._seen), str(error)
            if flaws or not reason:
                break
        if (now := self._contents()) != contents:
            changed = ", ".join(str(path) for path in contents if now[path] != contents[path])
            message = f"{changed} changed or vanished while the candidate was checked"
            flaws = (*flaws, CandidateFlaw(kind=FlawKind.TAMPERING, message=message))
        shutil.rmtree(self._outputs, ignore_errors=True)
        return self._verdict(task, statistics, flaws, reason)

    def _verdict(
        self, task: SampledTask, statistics: CampaignStatistics, flaws: tuple[CandidateFlaw, ...], reason: str
    ) -> CheckVerdict:
        ruling = Ruling.WRONG if flaws else Ruling.RIGHT if statistics.passed and not reason else Ruling.UNCHECKED
        if ruling is Ruling.UNCHECKED and not reason:
            reason = obstacle(self._seen.runs)
        if replaced := replaced_names(self._seen.runs):
            self._notes.append(f"the candidate replaces {', '.join(replaced[:5])}; it was put back")
        return CheckVerdict(
            ruling=ruling,
            candidate=str(self._code.candidate),
            reference=str(self._code.reference),
            flaws=flaws,
            reason=reason,
            cases=statistics.cases,
            passed=statistics.passed,
            failed=statistics.failed,
            abstained=statistics.abstained,
            devices=tuple(device.slug for device in self._checker.devices),
            dims=tuple(map(_dim_text, task.dims)),
            notes=tuple(self._notes),
            seed=self._seed,
        )

    def _search(self, suite: str, full: Op, forward: Op) -> CampaignStatistics:
        """Search with gradients if the candidate has them."""
        options = self._checker.session_options(suite, (full, forward), self._cases, self._seed)
        with Session(options, shared_zygotes=self._checker.zygotes) as session:
            op = self._with_or_without_gradients(session, full, forward)
            workers = CampaignWorkers(runner=_Recorder(session.pool, self._record), processes=session.processes)
            campaign = Campaign(replace(options.plan, ops=(op,)), workers, session.judge, self)
            self._campaign = campaign
            statistics = campaign.run()
            for sighting in statistics.in_order():
                identity = self._stored(session, sighting) if self._checker.stores else ""
                self._add(sighting.fail, sighting.first.case, identity)
            if not self._seen.failures:
                for case in self._rare_cases(op):
                    self._examine_rare(session, op, case, statistics)
        return statistics

    def _examine_rare(self, session: Session, op: Op, case: Case, statistics: CampaignStatistics) -> None:
        examined = session.judge.examine(op, case, session.pool.run)
        ending = examined.run.ending
        if case.scale is Scale.LONG and isinstance(ending, Raised):
            sizes = ", ".join(f"{name}={size}" for name, size in case.dims.items())
            error = f"{ending.kind}: {ending.message}"
            self._notes.append(f"the candidate refuses {sizes}, which is longer than the sample: {error}")
            return
        self._record(examined.run)
        statistics.count(examined)
        for fail in examined.fails:
            self._add(fail, case, "")

    def _rare_cases(self, op: Op) -> Iterator[Case]:
        """Yield cases that chance may leave out of a short search: values that were not drawn, and long dims."""
        drawn = {run.case.values for run in self._seen.completed}
        plain = [run.case for run in self._seen.completed if _is_plain(run)]
        if not plain:
            return
        small = [case for case in plain if op.largest_input(case.dims) <= MOST_ELEMENTS]
        usual = max(small or plain, key=_with_masked_lanes)
        for values in (*values_of(op), ValueDistribution.NEGATIVE):
            # A drawn case may have too few rows for one that is all zeros.
            if values not in drawn or values is ValueDistribution.ZEROS:
                yield replace(usual, values=values)
        yield from longer_than_sampled(op, usual)

    @staticmethod
    def _stored(session: Session, sighting: Sighting) -> str:
        """Store the failure, and return the id of its finding."""
        sources = Sources(roots=session.sources)
        (finding,) = quoted((session.not_tried(sighting),), sources)
        log = SearchLog(store.FOLDER, lambda one: render(one, sources).plain, versions())
        log.keep(sighting.fail.signature, finding)
        return finding.id

    def _with_or_without_gradients(self, session: Session, full: Op, forward: Op) -> Op:
        """Return the op for the campaign, after a case that asks for all gradients."""
        gradients = [name for name, given in full.inputs.items() if given.grad]
        first = scouts(full, self._checker.devices[0])
        if not gradients or not first:
            return forward
        run = session.pool.run(replace(first[0], seed=self._seed % 2**16 | 1))
        lacking = [one.name for one in run.mismatches if one.name.startswith("d:") and one.got is None]
        match run.ending:
            case Refused(message=message) if message.startswith(NO_BACKWARD):
                self._notes.append("gradients: not checked, since the candidate's outputs have none")
                return forward
            case _ if lacking:
                self._notes.append(f"gradients: not checked, since the candidate has no {', '.join(lacking)}")
                return forward
            case _:
                return full

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        """End the campaign after a flaw, once there are enough runs to name it."""
        del statistics, latest
        if self._has_flaw and len(self._seen.runs) >= LEAST_RUNS:
            self._campaign.stop()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """Note the first error, if the checker stops at one."""
        del trial
        self._has_flaw = self._has_flaw or (self._checker.stops and counts_as_flaw(fail))

    def _record(self, run: Run) -> None:
        with self._lock:
            self._seen.runs.append(run)

    def _add(self, fail: Fail, case: Case, identity: str) -> None:
        if counts_as_flaw(fail):
            self._seen.failures.append((fail, str(case), identity))
        else:
            self._notes.append(f"warning: {fail.oracle}: {fail.message}")

    def _referee(self, answer: Answer, task: SampledTask) -> tuple[CandidateFlaw, ...]:
        """Return the flaws that the referee sees in cases that passed."""
        path = self._folder / f"{REFEREE}.py"
        write_referee_suite(path, answer, task)
        suite = named_in_project(str(path))
        chosen = [run.case for run in self._seen.completed if _is_plain(run)][:REFEREED]
        if not chosen:
            self._notes.append("the referee had no case of normal values to look at")
        found: list[CandidateFlaw] = []
        with self._checker.pool(suite) as pool:
            for case in chosen:
                again = replace(
                    case, op=f"{suite}:{REFEREE}", options={}, configs={}, grad_mode=GradMode.NO_GRAD, frozen=()
                )
                run = pool.run(again)
                match run.ending:
                    case Completed():
                        pass
                    case Raised(kind=kind, message=message):
                        text = f"{kind}: {message}"
                        found.append(CandidateFlaw(kind=FlawKind.TAMPERING, message=text, case=str(case)))
                        break
                    case ending:
                        self._notes.append(f"the referee could not decide: {ending}")
        return tuple(found)

    def _contents(self) -> Mapping[Path, bytes | None]:
        return {path: _content(path) for path in self._code.files}

    def _reference_contents(self) -> tuple[bytes | None, ...]:
        places = (self._code.reference, self._code.inputs)
        return tuple(_content(Path(place.file)) for place in places if place.file)


class _Recorder:
    """A runner that shows each whole run to a function."""

    def __init__(self, pool: Pool, record: Callable[[Run], None]) -> None:
        self._pool = pool
        self._record = record

    def submit(self, request: RunRequest) -> Future[Run]:
        future = self._pool.submit(request)
        future.add_done_callback(self._take)
        return future

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        return self._pool.run(request, patience=patience)

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        return self._pool.run_alone(request, before, patience=patience)

    def _take(self, future: Future[Run]) -> None:
        if not future.cancelled() and future.exception() is None and not isinstance(run := future.result(), PairedRun):
            self._record(run)


def _is_plain(run: Run) -> bool:
    case = run.case
    return case.scale is Scale.USUAL and case.values in {ValueDistribution.NORMAL, ValueDistribution.SHIFTED}


def _with_masked_lanes(case: Case) -> tuple[int, int]:
    """Return the larger, the more sizes leave a part of their tile masked, and then the more elements there are."""
    sizes = case.dims.values()
    return sum(size.bit_count() > 1 for size in sizes), prod(sizes)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _dim_text(dim: SampledDim) -> str:
    sizes = ", ".join(map(str, dim.choices)) if dim.choices else f"{dim.low} to {dim.high}"
    fixed = f" ({dim.fixed})" if dim.fixed else ""
    return f"{dim.name} ({', '.join(dim.axes)}): {sizes}{fixed}"


def check(  # noqa: PLR0913 - keywords of a user's call
    new: Code,
    reference: Code | None = None,
    inputs: Code | None = None,
    *,
    devices: str = USUAL_DEVICE,
    cases: int = USUAL_CASES,
    seed: int | None = None,
    sizes: Sizes | None = None,
) -> CheckVerdict:
    """Check one candidate against its reference, in processes that end with it.

    Take a `Checker` for more than one candidate: it keeps its processes.

    Args:
        new: a function, `module:function` or `file.py:function`; or a file with `ModelNew`.
        reference: the same; or a file with `Model`, `get_inputs` and `get_init_inputs`, by default `new`.
        inputs: a function that returns the arguments of one call, or a list of several; none with models.
        devices: GPUs to emulate, as `--device` of `harness fuzz` takes them.
        cases: how many, over all devices.
        seed: equal seeds draw equal cases; by default one that nobody knows beforehand.
        sizes: the sizes of some dims, by the size in the sample: `{"128": (64, 127)}`.

    Raises:
        UsageError: a file, function or device does not exist, or the samples cannot be generalised.
        HarnessError: the harness cannot work here, for example because the disk is full.
    """
    with Checker(devices=devices, cases=cases) as checker:
        return checker.check(new, reference, inputs, seed=seed, sizes=sizes)
