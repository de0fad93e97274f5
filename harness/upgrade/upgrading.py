"""Makes the report of an upgrade: both releases compile, then run the same cases, and what differs is judged.

Each release works in processes of its own, one after the other.  What is done is kept: builds in the cache of
`harness matrix`, and the comparison of each case under a digest of all that decides it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from harness import wire
from harness.compiling.build_cache import FOLDER as BUILDS_FOLDER
from harness.compiling.build_cache import BuildCache
from harness.documents.upgrade_report import OtherEnding, UnloadableSuite, UpgradeReport
from harness.findings.triton_process import InstalledTriton
from harness.matrix.cases import cases_of
from harness.model.case import Case
from harness.model.plan import Plan
from harness.search.options import Options
from harness.upgrade.case_records import FOLDER as RECORDS_FOLDER
from harness.upgrade.case_records import CaseRecords, ComparedCase
from harness.upgrade.engines import recording_choice
from harness.upgrade.joined_builds import JoinedBuild, joined
from harness.upgrade.judging import Judgement
from harness.upgrade.side import PROGRAM, CaseToRun, SideAnswer, SideRequest, Task, key_name
from harness.upgrade.tritons import is_release
from harness.upgrade.verdicts import ExaminedCase, kernel_upgrades

OLD, NEW = "old", "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two releases."""

    name: str
    """`old` or `new`."""
    text: str
    """As on the command line."""
    triton: InstalledTriton

    @property
    def title(self) -> str:
        version = self.triton.version
        return version if is_release(self.text) else f"{version} ({self.text})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """What to compare."""

    old: Side
    new: Side
    plan: Plan
    options: Options
    """Those of the plan."""
    cases_per_op: int
    """On each device."""
    processes: int

    @property
    def cache(self) -> Path:
        return self.options.settings.cache


def upgrade(request: UpgradeRequest, progress: Callable[[str], None]) -> UpgradeReport:
    """Return the report.

    Raises:
        HarnessError: suites or libraries cannot be loaded with one of the releases.
        OSError: the cache cannot be written.
    """
    began = monotonic()
    answers = {side.name: _asked(request, side, Task.COMPILE, ()) for side in (request.old, request.new)}
    builds = joined(answers[OLD].matrices, answers[NEW].matrices, BuildCache(_builds_folder(request)))
    unloadable = tuple(_unloadable(answers))
    progress(f"{len(builds)} builds of both releases; running cases")
    broken = {each.suite for each in unloadable}
    drawn = (case for case in _cases(request, builds) if case.op.rpartition(":")[0] not in broken)
    cases = tuple(_with_folders(drawn, request, answers))
    examined = tuple(_examined(request, cases))
    return UpgradeReport(
        old=request.old.title,
        new=request.new.title,
        libraries=request.options.libraries,
        suites=request.options.suites,
        devices=tuple(device.slug for device in request.options.devices),
        engine=request.options.engine.name,
        cases=len(examined),
        kernels=kernel_upgrades(builds, examined, executes_ptx=recording_choice(request.options.engine).executes_ptx),
        unloadable=unloadable,
        endings=tuple(_other_endings(examined)),
        seconds=round(monotonic() - began, 1),
    )


def _asked(request: UpgradeRequest, side: Side, task: Task, cases: tuple[CaseToRun, ...]) -> SideAnswer:
    """Return what a side answers, after its process tree has ended."""
    orders = SideRequest(
        task=task,
        release=side.name,
        plan=request.plan,
        project=str(request.options.project),
        processes=request.processes,
        cases_per_op=request.cases_per_op,
        builds=str(_builds_folder(request)),
        scratch=side.triton.folder.name,
        cases=cases,
    )
    return wire.from_json(side.triton.answer_of(PROGRAM, orders, shows_progress=True), SideAnswer)


def _builds_folder(request: UpgradeRequest) -> Path:
    """Return the folder of builds: that of `harness matrix`, or another one for a Triton that is no release.

    The version of a checkout does not say what is in it; the folder that it is installed in has a digest of its files.
    """
    own = [side.triton.folder.name for side in (request.old, request.new) if not is_release(side.text)]
    return request.cache.joinpath(*(["checkouts", *own] if own else []), BUILDS_FOLDER)


# --- cases -----------------------------------------------------------------------------------------------------------


def _cases(request: UpgradeRequest, builds: Iterable[JoinedBuild]) -> Iterator[Case]:
    """Yield the cases that were run to find kernels, and one for each further config whose TTIR differs."""
    options = request.options
    by_text: dict[tuple[str, str, str], Case] = {}
    for op in options.ops:
        for device in options.devices:
            for case in cases_of(op, device, request.cases_per_op, options.seed):
                by_text[op.id, device.slug, str(case)] = case
                yield case
    kept: dict[tuple[str, ...], int] = {}
    for build in builds:
        cell = build.old
        if cell is None or not cell.build.is_kept:
            continue
        kernel = cell.kernel
        of = (cell.device, kernel.op, kernel.case, kernel.kernel, kernel.specialisation)
        index = kept[of] = kept.get(of, -1) + 1
        first = by_text.get((kernel.op, cell.device, kernel.case))
        if index and first is not None and build.is_compared and not build.same_ttir:
            yield replace(first, configs={**first.configs, kernel.kernel: index})


def _with_folders(
    cases: Iterable[Case], request: UpgradeRequest, answers: Mapping[str, SideAnswer]
) -> Iterator[CaseToRun]:
    """Yield each case once, with the folder of its records."""
    seen: set[str] = set()
    for case in cases:
        if case.digest not in seen:
            seen.add(case.digest)
            of = key_name(case.op.rpartition(":")[0], case.device)
            decisive = [answers[OLD].keys[of], answers[NEW].keys[of], request.options.engine.name]
            decisive += [side.triton.folder.name for side in (request.old, request.new)]
            key = hashlib.sha256(" ".join(decisive).encode()).hexdigest()[:20]
            yield CaseToRun(case=case, folder=str(request.cache / RECORDS_FOLDER / key))


def _examined(request: UpgradeRequest, cases: tuple[CaseToRun, ...]) -> Iterator[ExaminedCase]:
    """Run the cases with both releases; judge those whose launches differ."""
    if any(_compared(each) is None for each in cases):
        _asked(request, request.old, Task.RECORD, cases)
        _asked(request, request.new, Task.COMPARE, cases)
    known = [(each, compared) for each in cases if (compared := _compared(each)) is not None]
    differing = tuple(each for each, compared in known if compared.differs)
    for side in (request.old, request.new):
        if any(_judgement(each, side) is None for each in differing):
            _asked(request, side, Task.JUDGE, differing)
    for each, compared in known:
        yield ExaminedCase(
            case=each.case,
            compared=compared,
            old=_judgement(each, request.old) if compared.differs else None,
            new=_judgement(each, request.new) if compared.differs else None,
        )


def _unloadable(answers: Mapping[str, SideAnswer]) -> Iterator[UnloadableSuite]:
    old, new = answers[OLD].unloadable, answers[NEW].unloadable
    for suite in dict.fromkeys((*old, *new)):
        yield UnloadableSuite(suite=suite, old=old.get(suite, ""), new=new.get(suite, ""))


def _compared(each: CaseToRun) -> ComparedCase | None:
    return CaseRecords(Path(each.folder)).compared(each.case.digest)


def _judgement(each: CaseToRun, side: Side) -> Judgement | None:
    return CaseRecords(Path(each.folder)).judged(each.case.digest, side.name, Judgement)


def _other_endings(cases: Iterable[ExaminedCase]) -> Iterator[OtherEnding]:
    """Yield the cases that end otherwise with the new release."""
    for examined in cases:
        before, now = examined.compared.old_ending, examined.compared.new_ending
        if before != now:
            yield OtherEnding(case=str(examined.case), old=before, new=now)
