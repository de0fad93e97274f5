"""Fakes for tests of the search: an op, a device, and runners that make up a run instead of executing the case."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from harness import catalogue
from harness.model.case import Case, DType
from harness.model.finding import Finding
from harness.model.input_spec import Tensor
from harness.model.launch_difference import CaseAgreement
from harness.model.op import Dim, Op
from harness.model.paired_run import PairedRun, RunRequest, Sketch, case_of
from harness.model.run import (
    AccessSite,
    Completed,
    Faulted,
    FaultOf,
    Launch,
    Measure,
    MemoryEvent,
    Overlap,
    Result,
    Role,
    Run,
    Source,
    Unsupported,
)
from harness.model.verdict import Fail, Signature
from harness.oracles.sm_invariance import SM_COUNTS
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.workers.supervision.time_limits import Patience

DEVICE = catalogue.find("rtx-pro-6000")
KERNEL = "layer_norm_bwd_kernel"
STORE = Source(file="fla/modules/layernorm.py", line=431)

OP = Op(
    name="layer_norm",
    suite="suites/fla/norm.py",
    call=lambda: None,
    reference=lambda: None,
    dims={
        "T": Dim(low=1, high=2048),
        "D": Dim(low=1, high=1024),
        "G": Dim(low=1, high=4, choices=(1, 2, 4)),
    },
    inputs={
        "x": Tensor(shape=("T", "G*D")),
        "residual": Tensor(shape=("T", "G*D"), optional=True),
        "weight": Tensor(shape=("G*D",), optional=True),
    },
)

SIMPLEST = Case(op=OP.id, dims={"T": 1, "D": 1, "G": 1}, dtype=DType.FP32, device=DEVICE, absent=("residual", "weight"))

Shows = Callable[[Case], bool]


def never(case: Case) -> bool:
    del case
    return False


def facts(case: Case, overlaps: Shows) -> Run:
    """Return the run of a case; its kernel stores cells twice if `overlaps` is true."""
    launch = Launch(
        kernel=KERNEL,
        source=Source(file=STORE.file, line=300),
        grid=(case.device.sm_count, case.dims["G"], 1),
        config="BT: 32, num_warps: 4",
        config_index=case.configs.get(KERNEL, 0),
        config_count=6,
        num_warps=4,
        constants={"BT": 32},
        tile_sizes=(32, 64),
        build="b0",
    )
    overlap = Overlap(
        site=AccessSite(kernel=KERNEL, launch=0, argument="dx", source=STORE),
        same_bytes=True,
        cells=32,
        first_cells=((2, 0),),
        programs=(0, 1),
    )
    memory: tuple[MemoryEvent, ...] = (overlap,) if overlaps(case) else ()
    return Run(case=case, engine="virtual", ending=Completed(), launches=(launch,), memory=memory)


def clean(case: Case) -> Run:
    return facts(case, never)


def unsupported(case: Case) -> Run:
    ending = Unsupported(what="tt.histogram", kernel=KERNEL, source=STORE, triton_version="3.6.0")
    return Run(case=case, engine="virtual", ending=ending)


@dataclass
class ImmediateRunner:
    """Runs each case when it is submitted."""

    make: Callable[[Case], Run]
    ran: list[Case] = field(default_factory=list[Case])
    alone: list[tuple[Case, ...]] = field(default_factory=list[tuple[Case, ...]])

    def submit(self, request: RunRequest) -> Future[Run]:
        future = Future[Run]()
        future.set_result(self.run(request))
        return future

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        del patience
        case = case_of(request)
        self.ran.append(case)
        return self.make(case)

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        del patience
        case = case_of(request)
        self.alone.append((*before, case))
        return self.make(case)


@dataclass
class RecordingRunner(ImmediateRunner):
    """Records all requests, those for paired runs too."""

    submitted: list[RunRequest] = field(default_factory=list[RunRequest])

    def submit(self, request: RunRequest) -> Future[Run]:
        self.submitted.append(request)
        return super().submit(request)


@dataclass
class DifferingRunner(RecordingRunner):
    """On other SM counts the results differ by 3, which a tolerance of 5 allows and one of 1 does not."""

    wider: float = 4.0

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        run = super().run(request, patience=patience)
        elsewhere = run.case.device.sm_count in SM_COUNTS
        whole = replace(run, results=(result_of(3.0 * elsewhere, 1.0 + self.wider * elsewhere),))
        if isinstance(request, Case):
            return whole
        sketches = tuple(replace(Sketch.of(result), tolerance=()) for result in whole.results)
        return PairedRun(case=run.case, engine="virtual", ending=whole.ending, sketches=sketches)


@dataclass
class FaultingRunner(RecordingRunner):
    """On both GPUs: the hardware GPU loses its context in every case, in unoptimised code too."""

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        run = super().run(request, patience=patience)
        strayed = Faulted(fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access", launch=KERNEL)
        both = CaseAgreement(gpu="NVIDIA H200", launches=1)
        if isinstance(request, Case):
            return replace(run, ending=strayed, agreement=both)
        return PairedRun(case=run.case, engine=run.engine, ending=strayed, agreement=both)


def result_of(sketch: float, tolerance: float) -> Result:
    measure = Measure(ratio=0.5, index=(0,), got=0.0, expected=0.0)
    return Result(
        name="y",
        role=Role.OUTPUT,
        shape=(8,),
        whole=measure,
        worst_tile=measure,
        unwritten=0,
        first_unwritten=None,
        nonfinite=0,
        digest="aa",
        sketch=(sketch,),
        sketch_tolerance=(tolerance,),
    )


def compared(run: Run) -> Run:
    """Return the run with one result, which is right."""
    return replace(run, results=(result_of(0.0, 1.0),))


class ShufflingRunner(ImmediateRunner):
    """Finishes submitted cases in a shuffled order, on other threads."""

    def __init__(self, make: Callable[[Case], Run], seed: int) -> None:
        super().__init__(make)
        self._random = Random(seed)  # noqa: S311 -- an order, not a secret
        self._held: list[tuple[Future[Run], RunRequest]] = []
        self._threads = ThreadPoolExecutor(max_workers=3)

    def close(self) -> None:
        self._threads.shutdown()

    def submit(self, request: RunRequest) -> Future[Run]:
        future = Future[Run]()
        self._held.append((future, request))
        self._threads.submit(self._release)
        return future

    def _release(self) -> None:
        held = self._held.pop(self._random.randrange(len(self._held)))
        held[0].set_result(self.run(held[1]))


@contextmanager
def out_of_order(make: Callable[[Case], Run], seed: int) -> Generator[ShufflingRunner]:
    runner = ShufflingRunner(make, seed)
    yield runner
    runner.close()


@dataclass
class Silent:
    """Records what was sighted."""

    sightings: list[Fail] = field(default_factory=list[Fail])

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        pass

    def sighted(self, fail: Fail, trial: Trial) -> None:
        del trial
        self.sightings.append(fail)


def with_dims(**dims: int) -> Case:
    return replace(SIMPLEST, dims={**SIMPLEST.dims, **dims})


class KeptFindings(dict[Signature, Finding]):
    """The findings that triage leaves: a finding drops those that its symptoms had."""

    def keep(self, sighting: Sighting, finding: Finding) -> None:
        self[sighting.fail.signature] = finding
        for symptom in finding.symptoms:
            self.pop(symptom.signature, None)
