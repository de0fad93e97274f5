"""One check of one candidate: sample the arguments, search for failures, and let the referee confirm what passed.

Every part that runs code of others runs in a process that may die.  The referee's process never imports the candidate:
`referee` compares outputs that the candidate's process sent to the keeper with the reference.
"""

import hashlib
import shutil
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from filelock import FileLock

from harness.checks.answer import NO_BACKWARD, Answer
from harness.checks.check_processes import CheckProcesses
from harness.checks.check_suites import FORWARD, REFEREE, write_referee_suite, write_suite
from harness.checks.check_verdict import CandidateFlaw, CheckVerdict, Ruling
from harness.checks.code_places import CheckedCode
from harness.checks.flaws import Evidences, counts_as_flaw, flaws_of, obstacle, replaced_names, torch_shares
from harness.checks.outputs_keeper import OutputsKeeper
from harness.checks.rare_cases import rare_cases, sample_cases
from harness.checks.sampled_task import SampledTask, SampleOrder
from harness.errors import WorkerError
from harness.findings import store
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.model.case import HARNESS_FOLDER, Case, Scale, ValueDistribution
from harness.model.flaw_kind import FlawKind
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Completed, Raised, Refused, Run
from harness.model.verdict import Fail
from harness.oracles.endings import describe
from harness.reports.finding_text import Sources, quoted, render
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.judge import Examination
from harness.search.runner import RecordingRunner
from harness.search.session import Session, prepared
from harness.search.strategies import scouts
from harness.suite import load_suite
from harness.suite_files import named_in_project
from harness.wording import counted
from harness.workers.pool import Pool
from harness.workers.supervision import confinement

CHECKS = HARNESS_FOLDER / "checks"
LEAST_RUNS = 4
"""A check does not end earlier: all zeros in one case may be chance."""
LOST_SHARE = 0.25
"""A candidate of which a larger share of the legal cases shows nothing is not checked."""
REFEREED = 8
"""How many cases that passed the referee looks at."""
REFEREED_VALUES = frozenset(ValueDistribution) - {
    ValueDistribution.NAN_TAINTED,
    ValueDistribution.HUGE,
    ValueDistribution.EXTREME,
}
"""The others have results that nothing is compared with, or that rounding decides."""
ATTEMPTS = 2
"""How often a check begins whose processes fail without a flaw of the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOrder:
    """What a check is asked for."""

    code: CheckedCode
    declared: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The sizes of some dims, by their size in the sample."""
    allowed: frozenset[str] = frozenset()
    """Operators of torch that may do any part of the work."""
    cases: int
    seed: int
    limit_s: float
    """The time limit of the check."""
    stops_at_flaw: bool
    stores_findings: bool

    @property
    def identity(self) -> str:
        """A digest of what is checked: checks with an equal one share a folder."""
        return hashlib.sha256(f"{self.code}{self.declared}".encode()).hexdigest()[:10]


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """What the search and the referee say."""

    statistics: CampaignStatistics = field(default_factory=CampaignStatistics)
    flaws: tuple[CandidateFlaw, ...] = ()
    reason: str = ""
    """Why processes failed; empty if they did not."""


class CandidateCheck:
    """One check; it observes the campaign of its own search."""

    def __init__(self, order: CheckOrder, processes: CheckProcesses) -> None:
        self._order = order
        self._code = order.code
        self._processes = processes
        self._folder = prepared(HARNESS_FOLDER) and CHECKS / order.identity
        self._folder.mkdir(parents=True, exist_ok=True)
        self._outputs = (self._folder / "outputs").absolute()
        self._scratch = (self._folder / "scratch").absolute()
        """Where the candidate may write: a check begins and ends without it."""
        self._evidences = Evidences(allowed=order.allowed)
        self._lock = threading.Lock()
        self._notes = [f"the candidate's processes could {text}" for text in confinement.lacking()]
        self._has_flaw = False
        self._is_late = False
        self._pool: Pool | None = None
        """The processes that run code of others now."""
        self._refereed = 0
        """How many cases the referee judged."""

    def run(self) -> CheckVerdict:
        """Check it, after other processes are done that check the same candidate here."""
        with FileLock(self._folder / "lock"):
            timer = threading.Timer(self._order.limit_s, self._end)
            timer.daemon = True
            timer.start()
            try:
                return self._run()
            finally:
                timer.cancel()

    def _end(self) -> None:
        """End the check, whatever its processes do: its time is up."""
        with self._lock:
            self._is_late = True
            pool = self._pool
        if pool is not None:
            pool.close()

    @contextmanager
    def _ended_in_time(self, pool: Pool) -> Generator[None]:
        with self._lock:
            self._pool = pool
        try:
            if self._is_late:
                raise WorkerError("the check has no time left")
            yield
        finally:
            with self._lock:
                self._pool = None

    def _run(self) -> CheckVerdict:
        answer = Answer(
            candidate=self._code.candidate,
            reference=self._code.reference,
            init_inputs=self._code.init_inputs,
            weights_seed=self._order.seed,
        )
        contents = {path: _content(path) for path in self._code.files}
        with self._fresh_folders():
            task = self._sample(answer)
        with self._fresh_folders(), OutputsKeeper(self._outputs) as keeper:
            outcome = self._attempts(replace(answer, keeper=keeper.address, folder=str(self._outputs)), task)
        changed = [str(path) for path, content in contents.items() if _content(path) != content]
        if changed:
            message = f"{', '.join(changed)} changed or vanished while the candidate was checked"
            outcome.flaws = (*outcome.flaws, CandidateFlaw(kind=FlawKind.TAMPERING, message=message))
        return self._verdict(task, outcome)

    @contextmanager
    def _fresh_folders(self) -> Generator[None]:
        """Have a folder to which processes may write and one for the keeper, and nothing that was left there before."""
        folders = (self._scratch, self._outputs)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        try:
            yield
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)

    @property
    def _writable(self) -> tuple[str, ...]:
        return (str(self._scratch),)

    def _sample(self, answer: Answer) -> SampledTask:
        """Return what the samples of the arguments show, and the sizes that the reference accepts."""
        code, declared = self._code, self._order.declared
        order = SampleOrder(
            answer=replace(answer, weights_seed=0),
            inputs=code.inputs,
            declared=declared,
            result=str(self._scratch / "task.json"),
            kept=str(self._scratch / "sample.pt"),
        )
        files = tuple(_content(Path(place.file)) for place in (code.reference, code.inputs) if place.file)
        key = (code.reference, code.inputs, code.init_inputs, declared, files)
        task = self._processes.task(order, self._folder, key)
        widened = [sampled.name for sampled in task.inputs if sampled.is_widened]
        self._notes += [f"{name}: numbers of any sign, since the reference is finite for them" for name in widened]
        return task

    def _attempts(self, answer: Answer, task: SampledTask) -> _Outcome:
        """Search and ask the referee, once more if processes fail without a flaw."""
        path = self._folder / "candidate.py"
        name = write_suite(path, answer, task)
        suite = named_in_project(str(path))
        ops = {op.name: op for op in load_suite(suite, self._processes.project)}
        try:
            return self._attempts_with(suite, ops[name], ops[f"{name}{FORWARD}"], answer, task)
        finally:  # a replay has no keeper
            write_suite(path, replace(answer, keeper="", folder=""), task)

    def _attempts_with(self, suite: str, full: Op, forward: Op, answer: Answer, task: SampledTask) -> _Outcome:
        outcome = _Outcome()
        for _ in range(ATTEMPTS):
            outcome.reason = ""
            try:
                outcome.statistics = self._search(suite, task, full, forward)
                outcome.flaws = flaws_of(self._evidences)
                if not outcome.flaws and outcome.statistics.passed:
                    outcome.flaws = self._referee(answer, task)
            except (WorkerError, CancelledError) as error:  # the candidate may have destroyed what the processes need
                outcome.flaws, outcome.reason = flaws_of(self._evidences), str(error)
            if self._is_late:
                outcome.reason = f"the check took longer than {self._order.limit_s:g} s"
            if outcome.flaws or not outcome.reason or self._is_late:
                break
        return outcome

    def _verdict(self, task: SampledTask, outcome: _Outcome) -> CheckVerdict:
        statistics, reason = outcome.statistics, outcome.reason
        lost, completed = self._evidences.lost, self._evidences.completed
        legal = len(lost) + len(completed)
        if completed and len(lost) > LOST_SHARE * legal and not reason:  # a candidate may choose what is checked of it
            reason = f"{len(lost)} of {counted(legal, 'case')} show nothing: {obstacle(lost)}"
        if statistics.passed and not self._refereed and not reason:
            reason = "no case passed that the referee could judge"
        if outcome.flaws:
            reason = ""
        is_right = statistics.passed and not reason
        ruling = Ruling.WRONG if outcome.flaws else Ruling.RIGHT if is_right else Ruling.UNCHECKED
        if ruling is Ruling.UNCHECKED and not reason:
            reason = obstacle(self._evidences.runs)
        if replaced := replaced_names(self._evidences.runs):
            self._notes.append(f"the candidate replaces {', '.join(replaced[:5])}; it was put back")
        largest = self._largest()
        return CheckVerdict(
            ruling=ruling,
            candidate=str(self._code.candidate),
            reference=str(self._code.reference),
            flaws=outcome.flaws,
            reason=reason,
            cases=statistics.cases,
            passed=statistics.passed,
            failed=statistics.failed,
            abstained=statistics.abstained,
            refereed=self._refereed,
            devices=tuple(device.slug for device in self._processes.devices),
            dims=tuple(map(str, task.dims)),
            notes=tuple(self._notes),
            largest=str(largest.case) if largest else "",
            torch=torch_shares(largest) if largest else (),
            seed=self._order.seed,
        )

    # --- the search --------------------------------------------------------------------------------------------------

    def _search(self, suite: str, task: SampledTask, full: Op, forward: Op) -> CampaignStatistics:
        """Search with gradients if the candidate has them."""
        order = self._order
        with (
            self._processes.session(suite, (full, forward), order.cases, order.seed, self._writable) as session,
            self._ended_in_time(session.pool),
        ):
            op = self._with_or_without_gradients(session, task, full, forward)
            runner = RecordingRunner(session.pool, self._record)
            workers = CampaignWorkers(runner=runner, processes=session.processes)
            campaign = Campaign(replace(session.options.plan, ops=(op,)), workers, session.judge, self)
            self._campaign = campaign
            statistics = campaign.run()
            for sighting in statistics.in_order():
                identity = _stored(session, sighting) if order.stores_findings else ""
                self._add(sighting.fail, sighting.first.case, identity)
            if not self._evidences.failures:
                for case in rare_cases(op, self._evidences.completed):
                    self._examine_rare(session, op, case, statistics)
                self._examine_sample(session, op, task, statistics)
        return statistics

    def _with_or_without_gradients(self, session: Session, task: SampledTask, full: Op, forward: Op) -> Op:
        """Return the op for the campaign, after a case that asks for all gradients."""
        first = scouts(full, self._processes.devices[0])
        if not first or not any(declared.grad for declared in full.inputs.values()):
            return forward
        run = session.pool.run(replace(first[0], seed=self._order.seed % 2**16 | 1))
        lacking = [result.name for result in run.mismatches if result.name.startswith("d:") and result.got is None]
        match run.ending:
            case Refused(message=message) if message.startswith(NO_BACKWARD):
                self._note_gradients("the candidate's outputs have none", first[0], task)
                return forward
            case _ if lacking:
                self._note_gradients(f"the candidate has no {', '.join(lacking)}", first[0], task)
                return forward
            case _:
                return full

    def _note_gradients(self, lack: str, case: Case, task: SampledTask) -> None:
        """Note that gradients lack, which is a flaw if the samples require them."""
        if task.wants_gradients:
            message = f"the samples require gradients, and {lack}"
            self._evidences.flaws.append(CandidateFlaw(kind=FlawKind.WRONG_GRADIENT, message=message, case=str(case)))
        else:
            self._notes.append(f"gradients: not checked, since {lack}")

    def _examine_rare(self, session: Session, op: Op, case: Case, statistics: CampaignStatistics) -> None:
        examined = session.judge.examine(op, case, session.pool.run)
        ending = examined.run.ending
        if case.scale is Scale.LONG and isinstance(ending, Raised):
            sizes = ", ".join(f"{name}={size}" for name, size in case.dims.items())
            error = f"{ending.kind}: {ending.message}"
            self._notes.append(f"the candidate refuses {sizes}, which is longer than the sample: {error}")
            return
        self._count(examined, statistics)

    def _examine_sample(self, session: Session, op: Op, task: SampledTask, statistics: CampaignStatistics) -> None:
        """Judge cases of the sample's own size, or as near to it as can be, for a candidate may know it."""
        sizes = {dim.name: dim.sizes[0] for dim in task.dims}
        judged = list[Mapping[str, int]]()
        for case in sample_cases(op, sizes, self._evidences.completed):
            examined = session.judge.examine(op, case, session.pool.run)
            if self._evidences.is_lost(examined.run):
                self._notes.append(f"{case} was not judged: {describe(examined.run.ending)}")
                continue
            judged.append(case.dims)
            self._count(examined, statistics)
            if self._evidences.failures:
                return
        if not any(all(dims.get(name) == size for name, size in sizes.items()) for dims in judged):
            self._notes.append("the sample's own size was not judged: it is too large, or not legal for other values")

    def _count(self, examined: Examination, statistics: CampaignStatistics) -> None:
        """Count a case that the campaign did not draw."""
        self._record(examined.run)
        statistics.count(examined)
        for fail in examined.fails:
            self._add(fail, examined.run.case, "")

    def _largest(self) -> Run | None:
        """Return the run of the judged case with the most elements."""
        judged = [run for run in self._evidences.completed if run.results]
        return max(judged, key=lambda run: prod(run.case.dims.values()), default=None)

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        """End the campaign after a flaw, once there are enough runs to name it."""
        del statistics, latest
        if self._has_flaw and len(self._evidences.runs) >= LEAST_RUNS:
            self._campaign.stop()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """Note the first error, if the check stops at one."""
        is_flaw = self._order.stops_at_flaw and counts_as_flaw(fail) and not self._is_slow(trial.case)
        self._has_flaw = self._has_flaw or is_flaw

    def _record(self, run: Run) -> None:
        if not isinstance(run, PairedRun):
            with self._lock:
                self._evidences.runs.append(run)

    def _add(self, fail: Fail, case: Case, identity: str) -> None:
        if counts_as_flaw(fail) and not self._is_slow(case):
            self._evidences.failures.append((fail, str(case), identity))
        else:
            self._notes.append(f"warning: {fail.oracle}: {fail.message}")

    def _is_slow(self, case: Case) -> bool:
        with self._lock:
            runs = [run for run in self._evidences.runs if run.case == case]
        return any(map(self._evidences.is_slow, runs))

    # --- the referee -------------------------------------------------------------------------------------------------

    def _referee(self, answer: Answer, task: SampledTask) -> tuple[CandidateFlaw, ...]:
        """Return the flaws that the referee sees in cases that passed."""
        path = self._folder / f"{REFEREE}.py"
        write_referee_suite(path, answer, task)
        suite = named_in_project(str(path))
        chosen = _spread([run.case for run in self._evidences.completed if run.case.values in REFEREED_VALUES])
        undecided = list[str]()
        with self._processes.pool(suite, (str(self._scratch),)) as pool, self._ended_in_time(pool):
            for case in chosen:
                name = f"{REFEREE}{FORWARD if case.op.endswith(FORWARD) else ''}"
                again = replace(case, op=f"{suite}:{name}", options={}, configs={})
                # The referee compares by itself, once: a paired run has neither a definition nor reruns.
                match pool.run(PairedRunRequest(case=again, dot_precisions=())).ending:
                    case Completed():
                        self._refereed += 1
                    case Raised(kind=kind, message=message):
                        text = f"{kind}: {message}"
                        return (CandidateFlaw(kind=FlawKind.TAMPERING, message=text, case=str(case)),)
                    case ending:
                        undecided.append(describe(ending))
        self._notes += (
            [f"the referee could not decide {counted(len(undecided), 'case')}: {undecided[0]}"] if undecided else []
        )
        if len(undecided) > self._refereed:
            self._refereed = 0
        return ()


def _stored(session: Session, sighting: Sighting) -> str:
    """Store the failure, and return the id of its finding."""
    sources = Sources(roots=session.sources)
    (finding,) = quoted((session.not_tried(sighting),), sources)
    log = SearchLog(store.FOLDER, lambda stored: render(stored, sources).plain, versions())
    log.keep(sighting.fail.signature, finding)
    return finding.id


def _spread(cases: Sequence[Case]) -> Sequence[Case]:
    """Return cases from the first to the last, which has the sample's own size."""
    if len(cases) <= REFEREED:
        return cases
    return [cases[round(at * (len(cases) - 1) / (REFEREED - 1))] for at in range(REFEREED)]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
