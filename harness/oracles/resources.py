"""The promise that every kernel fits the resources of the GPU."""

from collections.abc import Iterator

from harness.model.device import DeviceProfile
from harness.model.kernel_resources import Resources
from harness.model.run import Launch, Raised, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, ResponsibleOracle, responsible_oracle, unfinished

TENSOR_MEMORY_COLUMNS = 512
"""Columns of one SM of compute capability 10.x, the only one with tensor memory (PTX ISA, tcgen05.alloc)."""

MEANING = "On this GPU the launch raises OutOfResources or fails to compile, however well it runs on a larger one."


class FitsResources(SingleRunOracle):
    """Checks shared memory, tensor memory, registers and threads.

    The figures come from the whole compiler pipeline, and from the exceptions with which Triton refuses a build.  The
    autotuner and the engine skip a config that does not fit, so an autotuned kernel fails only if no config fits.
    """

    name = "resources"
    promise = "Every kernel, or a config of it, compiles for the GPU and fits in its memory, registers and threads."

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
        pending = {launch.kernel for launch in run.launches if launch.build not in evidence.resources}
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
            signature=Signature(
                oracle=self.name,
                severity=Severity.ERROR,
                op=run.case.op,
                kernel=raised.launch or "",
                place=raised.kind,
            ),
            message=f"{nothing} be launched on {run.case.device.slug}: {first_line(raised.message)}",
            meaning=MEANING,
            source=raised.source,
        )


def failures_of(oracle: str, run: Run, evidence: Evidence) -> tuple[Fail, ...]:
    """Return the failures of the kernels that are not autotuned."""
    failures: dict[tuple[str, str], Fail] = {}
    for launch in run.launches:
        if launch.config_count > 1 or launch.build not in evidence.resources:
            continue
        for place, seen in shortages(evidence.resources[launch.build], run.case.device):
            failures.setdefault((launch.kernel, place), fail_of(oracle, run, launch, place, seen))
    return tuple(failures.values())


def fail_of(oracle: str, run: Run, launch: Launch, place: str, seen: str) -> Fail:
    """Return the failure of one launch for lack of one resource."""
    config = f" ({launch.config})" if launch.config else ""
    return Fail(
        signature=Signature(oracle=oracle, severity=Severity.ERROR, op=run.case.op, kernel=launch.kernel, place=place),
        message=f"{launch.kernel}{config} {seen}",
        meaning=MEANING,
        source=launch.source,
    )


def shortages(resources: Resources, device: DeviceProfile) -> Iterator[tuple[str, str]]:
    """Yield the resources of which the device has too little: a name, and the figures in words."""
    if resources.failure:
        yield "compiler", f"does not compile for {device.slug} (sm_{device.arch}): {first_line(resources.failure)}"
        return
    registers = resources.registers_per_thread * resources.threads
    for place, needed, limit, unit in (
        ("shared memory", resources.shared_bytes, device.shared_bytes_per_block, "bytes of shared memory"),
        ("tensor memory", resources.tensor_memory_columns, TENSOR_MEMORY_COLUMNS, "columns of tensor memory"),
        ("threads", resources.threads, device.max_threads_per_block, "threads in a block"),
        ("registers", registers, device.registers_per_sm, "registers in a block"),
    ):
        if needed > limit:
            yield place, f"needs {needed} {unit}, where {device.slug} has {limit}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
