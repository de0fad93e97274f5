"""The promise that every kernel fits the resources of the GPU."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.model.device import TENSOR_MEMORY_COLUMNS, DeviceProfile, Vendor
from harness.model.flaw_kind import FlawKind
from harness.model.kernel_resources import Resources
from harness.model.run import Launch, Raised, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, ResponsibleOracle, responsible_oracle, unfinished
from harness.oracles.traits import Need, PromiseScope, Proof, Traits

LOCAL_BYTES_PER_THREAD = 512 * 1024
"""The same for all capabilities (CUDA C++ Programming Guide, technical specifications per compute capability)."""
AMD_SCRATCH_BYTES_PER_WAVE = 8_387_584
"""The largest size that COMPUTE_TMPRING_SIZE.WAVESIZE can hold (ROCm's runtime, `MAX_WAVE_SCRATCH`)."""
INTEL_SCRATCH_BYTES = 262_144
"""The most scratch of a hardware thread of Intel GPUs, by an error message of their driver (max permitted PTSS)."""

FIRST_MEANING = (
    "The autotuner skips this config where it measures.  Where it measures nothing, all configs seem equal, and it "
    "takes this one, the first: the launch then raises OutOfResources or fails to compile."
)
_REFUSED = Resources.failed("it does not compile to TTIR")
MEANING = "On this GPU the launch raises OutOfResources or fails to compile, however well it runs on a larger one."


class FitsResources(SingleRunOracle):
    """Checks shared memory, tensor memory, registers, local memory and threads.

    The figures come from the whole compiler pipeline, and from the exceptions with which Triton refuses a build.  The
    autotuner skips a config that does not fit, so an autotuned kernel fails if none fits.  It is a warning if its first
    config does not.  For that, the other configs of a case in eight are compiled where its own does not fit.
    """

    name = "resources"
    promise = "Every kernel, or a config of it, compiles for the GPU and fits in its memory, registers and threads."
    traits = Traits(
        rank=20,
        flaw=FlawKind.PROMISE,
        scope=PromiseScope.BUILD,
        needs=frozenset({Need.RESOURCES}),
        judges_oversized=True,
        proof=Proof.GPU_LIMIT,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kernel and resource; abstain as long as a build that could fail is not finished."""
        run = evidence.run
        failures = failures_of(self.name, run, evidence)
        if isinstance(run.ending, Raised) and responsible_oracle(run.ending) is ResponsibleOracle.RESOURCES:
            return (*failures, self._judge_raised(run, run.ending))
        if failures:
            return failures
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not run.launches:
            return (Abstain(oracle=self.name, reason=NO_LAUNCH),)
        pending = {launch.kernel for launch in run.launches if _is_pending(launch, run, evidence)}
        if pending:
            return (Abstain(oracle=self.name, reason=f"not compiled to the end: {', '.join(sorted(pending))}"),)
        for launch in run.launches:
            if why := evidence.resources[launch.build].unknown:
                reason = f"{launch.kernel} could not be compiled here: {first_line(why)}"
                return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name),)

    def _judge_raised(self, run: Run, raised: Raised) -> Verdict:
        kernel = raised.launch or "a kernel"
        if raised.config_count is None:
            return Abstain(
                oracle=self.name, reason=f"{raised.kind} in {kernel}, which may be autotuned and skip this config"
            )
        count = raised.config_count
        nothing = f"{kernel} cannot" if count == 1 else f"none of the {count} configs of {kernel} can"
        return Fail(
            signature=self.signature(run, kernel=raised.launch or "", place=raised.kind),
            message=f"{nothing} be launched on {run.case.device.slug}: {first_line(raised.message)}",
            meaning=MEANING,
            source=raised.source,
        )


ORACLES = (FitsResources(),)


def failures_of(oracle: str, run: Run, evidence: Evidence) -> tuple[Fail, ...]:
    """Return the failures of kernels, once for each kernel and resource."""
    failures: dict[tuple[str, str], Fail] = {}
    for index, launch in enumerate(run.launches):
        if launch.build not in evidence.resources:
            continue
        for lack in shortages(evidence.resources[launch.build], run.case.device):
            if fail := _failure(oracle, run, launch, lack, evidence):
                failures.setdefault((launch.kernel, fail.signature.place), replace(fail, launch_index=index))
    return tuple(failures.values())


def _failure(oracle: str, run: Run, launch: Launch, lack: "Shortage", evidence: Evidence) -> Fail | None:
    """Return the failure of a launch that lacks a resource; None if its autotuner has another config.

    An autotuner skips a config that cannot run.  It takes its first one if it measures nothing.
    """
    if launch.config_count == 1:
        return fail_of(oracle, run, launch, lack.place, lack.seen)
    alternatives = [evidence.resources.get(build) if build else _REFUSED for build in launch.config_builds]
    if alternatives and all(other is not None and any(shortages(other, run.case.device)) for other in alternatives):
        seen = f"has no config left: none of {launch.config_count} can run; this one {lack.seen}"
        return fail_of(oracle, run, launch, lack.place, seen)
    if launch.config_index == 0 and alternatives and None not in alternatives:
        fail = fail_of(oracle, run, launch, f"{lack.place} of the first config", lack.seen)
        signature = replace(fail.signature, severity=Severity.WARNING)
        return replace(fail, signature=signature, meaning=FIRST_MEANING)
    return None


def _is_pending(launch: Launch, run: Run, evidence: Evidence) -> bool:
    """Return True if a build is unknown on which the verdict about a launch depends."""
    if launch.build not in evidence.resources:
        return True
    lacks = any(shortages(evidence.resources[launch.build], run.case.device))
    return lacks and any(build and build not in evidence.resources for build in launch.config_builds)


def fail_of(oracle: str, run: Run, launch: Launch, place: str, seen: str) -> Fail:
    """Return the failure of one launch for lack of one resource."""
    config = f" ({launch.config})" if launch.config else ""
    return Fail(
        signature=Signature(oracle=oracle, severity=Severity.ERROR, op=run.case.op, kernel=launch.kernel, place=place),
        message=f"{launch.kernel}{config} {seen}",
        meaning=MEANING,
        source=launch.source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource of which a device has too little for a kernel."""

    place: str
    """The resource: `shared memory`."""
    seen: str
    """The figures in words."""
    needed: int = 0
    limit: int = 0

    @property
    def overrun(self) -> float:
        """The needed amount as a multiple of the limit; 0 if there is no figure."""
        return self.needed / self.limit if self.limit else 0.0


def shortages(resources: Resources, device: DeviceProfile) -> Iterator[Shortage]:
    """Yield the resources of which the device has too little."""
    if resources.failure:
        seen = f"does not compile for {device.slug} ({device.arch_name}): {first_line(resources.failure)}"
        yield Shortage(place="compiler", seen=seen)
        return
    registers = resources.registers_per_thread * resources.threads
    for place, needed, limit, unit in (
        ("shared memory", resources.shared_bytes, device.shared_bytes_per_block, "bytes of shared memory"),
        ("tensor memory", resources.tensor_memory_columns, TENSOR_MEMORY_COLUMNS, "columns of tensor memory"),
        ("threads", resources.threads, device.max_threads_per_block, "threads in a block"),
        ("registers", registers, device.registers_per_sm, "registers in a block"),
        ("local memory", resources.spill_bytes, _local_limit(device), "bytes of local memory in a thread"),
        ("local memory", local_bytes(resources, device), device.memory_bytes, "bytes of local memory for all SMs"),
    ):
        if needed > limit:
            seen = f"needs {needed} {unit}, where {device.slug} has {limit}"
            yield Shortage(place=place, seen=seen, needed=needed, limit=limit)


def _local_limit(device: DeviceProfile) -> int:
    match device.vendor:
        case Vendor.NVIDIA:
            return LOCAL_BYTES_PER_THREAD
        case Vendor.AMD:
            return AMD_SCRATCH_BYTES_PER_WAVE // device.warp_size
        case Vendor.INTEL:
            return INTEL_SCRATCH_BYTES // device.warp_size


def local_bytes(resources: Resources, device: DeviceProfile) -> int:
    """Return the local memory that the driver reserves for a kernel: for as many threads as all SMs can hold.

    ROCm reserves less where memory is short, and lets fewer waves run: it has no such limit.
    """
    if device.vendor is not Vendor.NVIDIA:
        return 0
    return resources.spill_bytes * device.max_threads_per_sm * device.sm_count


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
