"""The simplest case, run, launch and result, and functions that change one part of them."""

from collections.abc import Mapping
from dataclasses import replace

from harness.model.case import Case, DType, LaneFill
from harness.model.device import Architecture, DeviceProfile
from harness.model.kernel_resources import Resources
from harness.model.run import (
    AccessSite,
    Completed,
    Deadlocked,
    Ending,
    FormMismatch,
    Launch,
    Measure,
    MemoryEvent,
    Raised,
    Refilled,
    Residency,
    Result,
    Role,
    Run,
    Source,
    Wait,
)
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Evidence, Oracle

OP = "suites/fla/norm.py:layer_norm"
KERNEL = "layer_norm_bwd_kernel"
LINE_431 = Source(file="fla/modules/layernorm.py", line=431)
LINE_207 = Source(file="fla/modules/layernorm.py", line=207)

DEVICE = DeviceProfile(
    slug="rtx-pro-6000",
    name="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    architecture=Architecture.BLACKWELL,
    capability=(12, 0),
    sm_count=188,
    shared_bytes_per_block=101_376,
    shared_bytes_per_sm=102_400,
    l2_bytes=128 * 2**20,
    registers_per_sm=65_536,
    max_threads_per_sm=1536,
    memory_bytes=96 * 2**30,
    sm_clock_khz=2_617_000,
    memory_clock_khz=14_001_000,
    memory_bus_bits=512,
    source="a literal",
)

LAUNCH = Launch(
    kernel=KERNEL,
    source=LINE_207,
    grid=(188, 1, 1),
    config="BT: 32, num_warps: 4",
    config_index=0,
    config_count=1,
    num_warps=4,
    constants={"D": 64},
    tile_sizes=(32, 64),
    build="b1",
)

SMALL = Resources(
    registers_per_thread=64,
    spill_bytes=0,
    shared_bytes=16_384,
    tensor_memory_columns=0,
    scratch_bytes_per_program=0,
    threads=128,
)


def case(
    *, seed: int = 1, sm_count: int = 188, lane_fill: LaneFill = LaneFill.ZERO, configs: Mapping[str, int] | None = None
) -> Case:
    return Case(
        op=OP,
        dims={"T": 129, "D": 64},
        dtype=DType.FP32,
        device=DEVICE.with_sm_count(sm_count),
        lane_fill=lane_fill,
        configs=configs or {},
        seed=seed,
    )


def deadlocked(
    ends_with: Residency = Residency.AT_LEAST, limit: int = 600, *, programs: int = 600, programs_per_sm: int = 1
) -> Deadlocked:
    resident = min(programs, 188 * programs_per_sm)
    wait = Wait(
        argument="counter", index=(0,), cells=1, source=LINE_431, programs=resident, first_programs=(0, 1, 2, 3)
    )
    return Deadlocked(
        kernel=KERNEL,
        waits=(wait,),
        programs=programs,
        resident=resident,
        not_started=programs - resident,
        sm_count=188,
        programs_per_sm=programs_per_sm,
        limited_by="threads",
        ends_with=ends_with,
        limit=limit,
    )


def measure(ratio: float) -> Measure:
    return Measure(ratio=ratio, index=(3, 0), got=0.5, expected=0.25)


def result(
    name: str = "y",
    *,
    whole: float = 0.1,
    worst_tile: float = 0.2,
    unwritten: int = 0,
    nonfinite: int = 0,
    digest: str = "aa",
    sketch: tuple[float, ...] = (1.0, 2.0),
) -> Result:
    return Result(
        name=name,
        role=Role.OUTPUT,
        shape=(129, 64),
        whole=measure(whole),
        worst_tile=measure(worst_tile),
        unwritten=unwritten,
        first_unwritten=(128, 0) if unwritten else None,
        nonfinite=nonfinite,
        digest=digest,
        sketch=sketch,
        sketch_tolerance=(0.01,) * len(sketch),
    )


def run(
    *,
    of: Case | None = None,
    ending: Ending | None = None,
    launches: tuple[Launch, ...] = (LAUNCH,),
    results: tuple[Result, ...] | None = None,
    memory: tuple[MemoryEvent, ...] = (),
    engine: str = "virtual",
    refilled: Refilled | None = None,
    mismatches: tuple[FormMismatch, ...] = (),
) -> Run:
    return Run(
        case=of or case(),
        engine=engine,
        ending=ending or Completed(),
        launches=launches,
        results=(result(),) if results is None else results,
        memory=memory,
        refilled=refilled,
        mismatches=mismatches,
    )


def raised(
    message: str = "boom",
    *,
    kind: str = "RuntimeError",
    phase: str = "backward",
    source: Source | None = LINE_431,
    config_count: int | None = None,
) -> Raised:
    return Raised(
        kind=kind,
        message=message,
        source=source,
        phase=phase,
        traceback="",
        launch=None if config_count is None else KERNEL,
        config_count=config_count,
    )


def site(argument: str = "dx", *, launch: int = 0, source: Source | None = LINE_431) -> AccessSite:
    return AccessSite(kernel=KERNEL, launch=launch, argument=argument, source=source)


def launch(**changes: object) -> Launch:
    return replace(LAUNCH, **changes)


def judge(
    oracle: Oracle, judged: Run, *paired_runs: Run, resources: Mapping[str, Resources] | None = None
) -> list[str]:
    """Return the verdicts as lines, which are easy to compare."""
    evidence = Evidence(run=judged, paired_runs=paired_runs, resources=resources or {})
    return [line(verdict) for verdict in oracle.judge(evidence)]


def line(verdict: Verdict) -> str:
    match verdict:
        case Pass():
            return "pass"
        case Abstain():
            return f"abstain: {verdict.reason}"
        case Fail():
            return f"{verdict.signature.severity}: {verdict.message}"


def only_failure(
    oracle: Oracle, judged: Run, *paired_runs: Run, resources: Mapping[str, Resources] | None = None
) -> Fail:
    (verdict,) = oracle.judge(Evidence(run=judged, paired_runs=paired_runs, resources=resources or {}))
    assert isinstance(verdict, Fail)
    return verdict


def signature(oracle: str, place: str, *, kernel: str = KERNEL, severity: Severity = Severity.ERROR) -> Signature:
    return Signature(oracle=oracle, severity=severity, op=OP, kernel=kernel, place=place)
