"""The processes of a checker.  They stay warm between checks, and may die by what a candidate does."""

import shutil
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from harness import wire
from harness.checks.check_suites import SAMPLES, write_sample_suite
from harness.checks.sampled_task import SampledTask, SampleOrder
from harness.errors import UsageError
from harness.model.case import HARNESS_FOLDER, Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import EngineTraits
from harness.model.op import Op
from harness.model.run import Completed, Raised
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session, prepared
from harness.settings import Settings
from harness.suite_files import named_in_project, project_of
from harness.workers.fork_servers.emulating_zygotes import EmulatingZygotes
from harness.workers.fork_servers.residents import Residents
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.time_limits import Patience

MODULES = (
    "harness.checks.candidate_calls",
    "harness.checks.referee",
    "numpy.ctypeslib",
    "numpy.ma",
    "triton.compiler.code_generator",
    "triton.experimental.gluon",
    "triton.language.extra.libdevice",
    "triton.tools.tensor_descriptor",
    "harness.checks.shared_snapshot",
)
"""What the processes of each check need, and import once: the harness's own, and what Triton imports at a launch.

The snapshot comes last: it keeps what the others define.
"""

SECOND_RUNS_ONE_IN = 4
"""One drawn case in so many gets second runs, if no kernel is autotuned: each takes as long as two or three cases."""


@dataclass(frozen=True, kw_only=True)
class CheckProcesses:
    """What starts processes: for the search of one check, and for suites that are no search's."""

    devices: tuple[DeviceProfile, ...]
    engine: EngineTraits
    """Where cases of the search run; samples are made and results refereed on the virtual GPU."""
    oracles: tuple[str, ...]
    time_limit_s: float
    settings: Settings
    processes: int | None
    """How many cases of a search run at once; None: one for each core."""
    project: Path = field(default_factory=lambda: project_of(Path.cwd()))
    _zygotes: EmulatingZygotes = field(init=False)
    _tasks: dict[Hashable, SampledTask] = field(default_factory=dict[Hashable, SampledTask])

    def __post_init__(self) -> None:
        """Start nothing yet."""
        zygotes = EmulatingZygotes(MODULES, residents=Residents.allowed_by(self.settings))
        object.__setattr__(self, "_zygotes", zygotes)

    def close(self) -> None:
        """End every process."""
        self._zygotes.close()

    def session(self, suite: str, ops: tuple[Op, ...], cases: int, seed: int, folders: tuple[str, ...]) -> Session:
        """Return the session of a search whose processes write to these folders alone."""
        options = Options(
            suites=(suite,),
            ops=ops,
            devices=self.devices,
            budget=CaseBudget(cases=cases),
            seed=seed,
            project=self.project,
            oracles=self.oracles,
            second_runs_one_in=SECOND_RUNS_ONE_IN,
            engine=self.engine,
            fixed_sm_count=True,
            time_limit_s=self.time_limit_s,
            processes=self.processes,
            settings=self.settings,
            confined_to=folders,
        )
        return Session(options, shared_zygotes=self._zygotes)

    def pool(self, suite: str, folders: tuple[str, ...]) -> Pool:
        """Return a pool of one process for a suite that is no search's; it writes to these folders alone."""

        def spec_of(device: DeviceProfile) -> WorkerSpec:
            scratch = str(prepared(HARNESS_FOLDER) / "scratch")
            project = str(self.project)
            return WorkerSpec(device=device, suites=(suite,), project=project, scratch=scratch, confined_to=folders)

        return Pool(cache(spec_of), 1, self.time_limit_s, PoolOptions(shared_zygotes=self._zygotes))

    def task(self, order: SampleOrder, folder: Path, key: Hashable) -> SampledTask:
        """Return what the samples show, asked for once for each content of the files; `order.result` is in a folder.

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
        case = Case(op=f"{suite}:{SAMPLES}", dims={}, dtype=DType.FP32, device=self.devices[0])
        with self.pool(suite, (str(Path(order.result).parent),)) as pool:
            run = pool.run(case, patience=Patience.HURRIED)
        match run.ending:
            case Completed():
                task = wire.from_json(Path(order.result).read_text(encoding="ascii"), SampledTask)
                if task.sample:  # out of reach of candidates
                    kept = (folder / "sample.pt").absolute()
                    shutil.move(task.sample, kept)
                    task = replace(task, sample=str(kept))
            case Raised(kind=kind, message=message):
                raise UsageError(f"{order.inputs}: {kind}: {message}")
            case ending:
                raise UsageError(f"{order.inputs} gives no sample: its process ended so: {ending}")
        if task.problem:
            raise UsageError(f"{order.inputs}: {task.problem}")
        return task
