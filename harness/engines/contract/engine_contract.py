"""The contract of engines: what the harness relies on, as obligations that any engine can be asked to keep.

The engine runs in workers, as in a search.  Each obligation looks at the runs of a few cases of `contract_suite`, and
names what is broken.  What an engine declares in its traits is an obligation as well.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.engines.contract.contract_suite import RAISED, REFUSED
from harness.model.case import Case, DType
from harness.model.device import DeviceProfile
from harness.model.engine_traits import EngineTraits
from harness.model.paired_run import request_paired_run, sketches_of
from harness.model.run import Completed, Raised, Refused, Run, Stray
from harness.workers.interfaces import GpuSource
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import WorkerSpec

SUITE = str(Path(__file__).with_name("contract_suite.py"))
KERNEL = "contract_kernel"
ROWS = 100
"""No multiple of the kernel's tile, so that a store without a mask leaves the tensor."""
SAMPLED, NOT_SAMPLED = 0, 1
"""Seeds of cases that have, and that have no, second runs."""
LIMIT_S = 60.0
GRADIENT = "d:x"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUnderTest:
    """An engine, the GPU that it emulates, and what runs its cases."""

    engine: EngineTraits
    device: DeviceProfile
    pool: Pool

    def case(self, op: str, *, seed: int = NOT_SAMPLED, is_exact: bool = False) -> Case:
        return Case(
            op=f"{SUITE}:{op}",
            dims={"T": ROWS},
            dtype=DType.FP32,
            device=self.device,
            seed=seed,
            is_exact=is_exact,
        )

    def run(self, op: str, *, seed: int = NOT_SAMPLED, is_exact: bool = False) -> Run:
        return self.pool.run(self.case(op, seed=seed, is_exact=is_exact))


Obligation = Callable[[EngineUnderTest], Iterator[str]]
"""Yields what is broken."""


def names_case_and_engine(tested: EngineUnderTest) -> Iterator[str]:
    """A run has the case that was asked for, and the name of the engine."""
    run = tested.run("doubled")
    if run.case != tested.case("doubled"):
        yield f"the run is of another case: {run.case}"
    if run.engine != tested.engine.name:
        yield f"the run names the engine {run.engine!r}, its traits {tested.engine.name!r}"


def completes_right_kernels(tested: EngineUnderTest) -> Iterator[str]:
    """A right kernel completes, and its output and gradient are within their tolerances."""
    run = tested.run("doubled")
    if not isinstance(run.ending, Completed):
        yield f"a right kernel did not complete: {run.ending}"
        return
    results = {result.name: result for result in run.results}
    if GRADIENT not in results or len(results) != 2:
        yield f"not an output and the gradient {GRADIENT}, but {sorted(results)}"
    for result in results.values():
        if not (result.whole.ratio <= 1 and result.worst_tile.ratio <= 1):
            yield f"{result.name} of a right kernel is {result.whole.ratio:.3g} tolerances away"


def sees_wrong_values(tested: EngineUnderTest) -> Iterator[str]:
    """A wrong kernel completes, and its output is beyond the tolerance."""
    run = tested.run("tripled")
    if not isinstance(run.ending, Completed):
        yield f"a kernel with wrong values did not complete: {run.ending}"
    elif all(result.whole.ratio <= 1 for result in run.results):
        yield "wrong values are within the tolerance"


def records_launches(tested: EngineUnderTest) -> Iterator[str]:
    """Launches are recorded in order, with kernel, source, and the grid of the emulated device."""
    run = tested.run("doubled")
    expected = (tested.device.sm_count, 1, 1)
    if [(launch.kernel, launch.grid) for launch in run.launches] != [(KERNEL, expected)] * 2:
        seen = [(launch.kernel, launch.grid) for launch in run.launches]
        yield f"forward and backward launch {KERNEL} with the grid {expected}; the run has {seen}"
    if any(launch.source is None or "kernels_contract.py" not in launch.source.file for launch in run.launches):
        yield "a launch does not name the kernel's file"


def runs_equal_cases_alike(tested: EngineUnderTest) -> Iterator[str]:
    """Equal cases have equal results, bit for bit."""
    first, again = (
        {result.name: result.digest for result in run.results} for run in (tested.run("doubled"), tested.run("doubled"))
    )
    if first != again:
        yield f"a case gave other results the second time: {sorted(name for name in first if first != again)}"


def survives_errors(tested: EngineUnderTest) -> Iterator[str]:
    """What the library raises is the ending of its case, and the next case runs as if nothing had happened."""
    raised, refused, after = tested.run("raises"), tested.run("refuses"), tested.run("doubled")
    if not (isinstance(raised.ending, Raised) and RAISED in raised.ending.message):
        yield f"an exception of the library is no `Raised`: {raised.ending}"
    if not (isinstance(refused.ending, Refused) and REFUSED in refused.ending.message):
        yield f"a declared refusal is no `Refused`: {refused.ending}"
    if not isinstance(after.ending, Completed):
        yield f"the case after an exception did not complete: {after.ending}"


def makes_paired_runs(tested: EngineUnderTest) -> Iterator[str]:
    """A paired run has the case that was asked for, and sketches or results to compare."""
    run = tested.run("doubled")
    paired = tested.pool.run(request_paired_run(run, tested.case("doubled", seed=SAMPLED)))
    if paired.case != tested.case("doubled", seed=SAMPLED):
        yield f"the paired run is of another case: {paired.case}"
    names = [sketch.name for sketch in sketches_of(paired)]
    if not names or names != [result.name for result in run.results]:
        yield f"a paired run has no sketch of each result, but {names}"


def has_provenance(tested: EngineUnderTest) -> Iterator[str]:
    """With `has_provenance`, a store outside a tensor is an event that names the tensor."""
    run = tested.run("doubled_beyond_the_end")
    strays = [event for event in run.memory if isinstance(event, Stray)]
    if tested.engine.has_provenance and not any(event.site.argument == "y" for event in strays):
        yield "the engine declares provenance, and does not report the tensor of a store beyond its end"


def has_exact_runs(tested: EngineUnderTest) -> Iterator[str]:
    """With `has_exact_runs`, a case that asks for exact arithmetic has an exact run."""
    run = tested.run("doubled", is_exact=True)
    if tested.engine.has_exact_runs and (run.exact is None or not run.exact.comparisons):
        yield "the engine declares exact runs, and a case that asks for one has none"


def repeats_cases(tested: EngineUnderTest) -> Iterator[str]:
    """With `repeats_cases`, a sampled case runs twice, and gives the same bits."""
    run = tested.run("doubled", seed=SAMPLED)
    if not tested.engine.repeats_cases:
        return
    if run.repeated is None:
        yield "the engine declares that it repeats cases, and a sampled case is not repeated"
    elif run.repeated.digests != {result.name: result.digest for result in run.results}:
        yield "the repetition of a right case has other bits"


OBLIGATIONS: tuple[Obligation, ...] = (
    names_case_and_engine,
    completes_right_kernels,
    sees_wrong_values,
    records_launches,
    runs_equal_cases_alike,
    survives_errors,
    makes_paired_runs,
    has_provenance,
    has_exact_runs,
    repeats_cases,
)


def broken_obligations(
    engine: EngineTraits, device: DeviceProfile, gpus: GpuSource | None = None
) -> Mapping[str, tuple[str, ...]]:
    """Run an engine in workers, and return what it breaks, by obligation; empty if it keeps the contract.

    Args:
        engine: its traits, with the factory that workers call: `module:factory`.
        device: the GPU to emulate.
        gpus: the source of hardware GPUs, for an engine that needs them.

    Raises:
        LibraryError, WorkerError: the engine cannot be loaded, or breaks the protocol of workers.
    """
    with TemporaryDirectory(prefix="harness-contract-") as scratch:

        def spec_of(emulated: DeviceProfile) -> WorkerSpec:
            return WorkerSpec(device=emulated, suites=(SUITE,), scratch=scratch, engine=engine.factory)

        pool = Pool(spec_of, 1, LIMIT_S, replace(PoolOptions(), gpus=gpus))
        try:
            tested = EngineUnderTest(engine=engine, device=device, pool=pool)
            broken = {obligation.__name__: tuple(obligation(tested)) for obligation in OBLIGATIONS}
        finally:
            pool.close()
    return {name: seen for name, seen in broken.items() if seen}
