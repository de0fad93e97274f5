"""The promise that every launch keeps the limits of CUDA, of HIP on AMD's GPUs, or of Triton on Intel's."""

from collections.abc import Iterator

from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile, Vendor
from harness.model.flaw_kind import FlawKind
from harness.model.run import Launch, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, unfinished
from harness.oracles.traits import Causality, PromiseScope, Proof, Traits

RUNTIMES = {Vendor.NVIDIA: "CUDA", Vendor.AMD: "HIP", Vendor.INTEL: "Triton's launcher"}
"""What limits a grid."""
PORTABLE_CLUSTER = 8
"""The most blocks of a cluster on every GPU that has clusters."""
LARGEST_CLUSTER = 16
"""The most blocks of a cluster where a kernel opts in, as Triton's launcher does for this size alone."""
LARGE_CLUSTERS = frozenset({9, 10})
"""Major compute capabilities with clusters of 16 blocks: those of H100 and B200, which Triton's launcher names."""
ROWS_AXIS = "x"
"""The axis along which rows lie, since it alone has room for more than 65,535 programs."""
Violation = tuple[str, Severity, str, str]
"""Place, severity, what was seen, what it means."""


class WithinLaunchLimits(SingleRunOracle):
    """Checks grid extents, clusters and threads per block; `resources` checks what only the compiler knows."""

    name = "launch-limits"
    promise = "Every launch keeps the driver's limits for grid extents, for clusters and for threads in a block."
    traits = Traits(
        rank=10,
        flaw=FlawKind.PROMISE,
        causality=Causality.KERNEL,
        scope=PromiseScope.LAUNCH,
        judges_oversized=True,
        has_harmful_warnings=True,
        proof=Proof.GPU_LIMIT,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kernel and limit; launches before an exception count too."""
        run = evidence.run
        failures: dict[tuple[str, str], Fail] = {}
        for index, launch in enumerate(run.launches):
            for place, severity, seen, meaning in violations(launch, run.case):
                signature = self.signature(run, kernel=launch.kernel, place=place, severity=severity)
                fail = Fail(
                    signature=signature,
                    message=f"{launch.kernel} {seen}",
                    meaning=meaning,
                    source=launch.source,
                    launch_index=index,
                )
                failures.setdefault((launch.kernel, place), fail)
        if failures:
            return tuple(failures.values())
        if reason := _too_many_rows(run) or unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not run.launches:
            return (Abstain(oracle=self.name, reason=NO_LAUNCH),)
        return (Pass(oracle=self.name),)


ORACLES = (WithinLaunchLimits(),)


def _too_many_rows(run: Run) -> str:
    """Return why a launch of an oversized case says nothing of limits; empty if it does.

    Rows of one element, such as those of a vocabulary of one token, are no input of a real program.
    """
    if run.case.scale is not Scale.OVERSIZED:
        return ""
    device = run.case.device
    wide = next((each for each in run.launches if each.grid[0] > _grid_limits(each, device)[ROWS_AXIS]), None)
    if wide is None:
        return ""
    extent = f"{wide.grid[0]} in {wide.kernel}"
    return f"an oversized case has more rows than a grid may have programs along {ROWS_AXIS}: {extent}"


def violations(launch: Launch, case: Case) -> Iterator[Violation]:
    """Yield the limits that a launch does not keep.

    So many programs along x that only an oversized case has as many rows are no such limit.
    """
    device = case.device
    yield from _cluster_violations(launch, case)
    runtime = RUNTIMES[device.vendor]
    for (axis, limit), programs in zip(_grid_limits(launch, device).items(), launch.grid, strict=True):
        # CUDA's grid is one of blocks, and Triton's launcher multiplies its first extent by the size of a cluster.
        clusters = axis == "x" and launch.num_ctas > 1
        extent, unit = (programs * launch.num_ctas, "blocks") if clusters else (programs, "programs")
        if extent > limit and not (case.scale is Scale.OVERSIZED and axis == ROWS_AXIS):
            yield (
                f"grid {axis}",
                Severity.ERROR,
                f"was launched with {extent} {unit} along {axis}, where {runtime} allows {limit} (grid {launch.grid})",
                "The driver refuses such a launch with `invalid argument`; an input this long cannot be run at all.",
            )
        if extent < 1:
            yield (
                f"empty grid {axis}",
                Severity.WARNING,
                f"was launched with {extent} programs along {axis} (grid {launch.grid})",
                "Triton silently skips a launch without programs, so what the kernel should have stored is never "
                "stored.",
            )
    threads = launch.num_warps * device.warp_size
    if threads > device.max_threads_per_block:
        yield (
            "threads",
            Severity.ERROR,
            f"was launched with {threads} threads in a block, where {device.slug} allows "
            f"{device.max_threads_per_block} (num_warps {launch.num_warps})",
            "The GPU refuses such a launch.",
        )


def _grid_limits(launch: Launch, device: DeviceProfile) -> dict[str, int]:
    return device.grid_limits(max(1, launch.num_warps) * device.warp_size)


def _cluster_violations(launch: Launch, case: Case) -> Iterator[Violation]:
    size, device = launch.num_ctas, case.device
    if size <= PORTABLE_CLUSTER:
        return
    if size != LARGEST_CLUSTER:
        yield (
            "cluster",
            Severity.ERROR,
            f"was launched with {size} blocks in a cluster (num_ctas), where CUDA allows {PORTABLE_CLUSTER}, and "
            f"{LARGEST_CLUSTER} to a kernel that opts in",
            f"Triton's launcher opts in for {LARGEST_CLUSTER} blocks alone; the driver refuses any other such launch.",
        )
    elif device.capability[0] not in LARGE_CLUSTERS:
        yield (
            "cluster",
            Severity.WARNING,
            f"was launched with {size} blocks in a cluster (num_ctas), more than the {PORTABLE_CLUSTER} that every GPU "
            f"with clusters has; {device.slug} may have fewer",
            "A GPU without room for such a cluster refuses the launch.",
        )
