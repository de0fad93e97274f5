"""Makes a matrix: collects kernels, compiles what the cache lacks, and puts both together."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic

from harness.catalogue import gap
from harness.compiling.build_cache import BuildCache
from harness.compiling.compiler_child import cpu_seconds
from harness.compiling.compilers import Compilers
from harness.documents.build_matrix import (
    BuildMatrix,
    CompiledBuild,
    MatrixCost,
    MatrixRow,
    UnfinishedCase,
)
from harness.findings.versions import versions
from harness.matrix.collection import CollectionRequest, DeviceCollection, collect, target_of
from harness.model.kernel_build import BuildFacts, BuildRequest, CollectedKernel

Progress = Callable[[str], None]


def make_matrix(request: CollectionRequest, cache: BuildCache, progress: Progress) -> BuildMatrix:
    """Return the matrix.  What was compiled is in the cache, even if this is interrupted."""
    began_s = cpu_seconds()
    collections = tuple(_chosen(each, request.kernels) for each in collect(request, cache, progress))
    requests = {each.key: each for each in _requests(collections)}
    cached = {key: facts for key in requests if (facts := cache.facts(key)) is not None}
    known = cached | _unbuildable(requests.values(), request)
    missing = [each for key, each in sorted(requests.items()) if key not in known]
    compiled = _compile(missing, len(known), cache, request.options.processes or 1, progress)
    return BuildMatrix(
        libraries=request.options.libraries,
        versions=versions(),
        suites=request.options.suites,
        devices=request.options.devices,
        rows=tuple(_rows(collections)),
        builds=tuple(
            CompiledBuild(request=each, facts=known.get(key) or compiled[key]) for key, each in sorted(requests.items())
        ),
        unfinished=tuple(
            UnfinishedCase(op=case.op, device=each.device.slug, case=case.case, ending=case.ending)
            for each in collections
            for case in each.cases
            if case.ending
        ),
        cost=MatrixCost(
            whole_s=round(cpu_seconds() - began_s, 2),
            compiler_s=round(sum(facts.cpu_seconds for facts in compiled.values()), 2),
            compiled=len(compiled),
        ),
    )


def _unbuildable(requests: Iterable[BuildRequest], of: CollectionRequest) -> dict[str, BuildFacts]:
    """Return the facts of builds for which this release of Triton makes no machine code at all."""
    gaps = {target_of(device): gap(device, versions()["triton"]) for device in of.options.devices}
    return {each.key: BuildFacts(unknown=why) for each in requests if (why := gaps.get(each.target))}


def _chosen(collection: DeviceCollection, names: tuple[str, ...]) -> DeviceCollection:
    """Return the collection with the named kernels alone; all if there is no name."""
    if not names:
        return collection
    cases = (
        replace(case, kernels=tuple(kernel for kernel in case.kernels if kernel.kernel in names))
        for case in collection.cases
    )
    return replace(collection, cases=tuple(cases))


def _requests(collections: Iterable[DeviceCollection]) -> Iterable[BuildRequest]:
    return (
        BuildRequest(key=build.key, target=build.target, options=build.options, ttir=build.ttir)
        for each in collections
        for case in each.cases
        for kernel in case.kernels
        for build in kernel.builds
        if build.key
    )


def _rows(collections: Iterable[DeviceCollection]) -> Iterable[MatrixRow]:
    """Yield each specialisation of a kernel once for each device."""
    for each in collections:
        kernels: dict[tuple[str, str, str], CollectedKernel] = {}
        for case in each.cases:
            for kernel in case.kernels:
                kernels.setdefault((kernel.kernel, kernel.environment, kernel.specialisation), kernel)
        yield from (MatrixRow(device=each.device.slug, kernel=kernel) for kernel in kernels.values())


def _compile(
    missing: list[BuildRequest], cached: int, cache: BuildCache, processes: int, progress: Progress
) -> Mapping[str, BuildFacts]:
    """Compile the builds in the order of their keys, which is random, so that the estimate is fair from the start."""
    compiled: dict[str, BuildFacts] = {}
    if not missing:
        return compiled
    began = monotonic()
    with Compilers(cache, min(processes, len(missing))) as compilers:
        for request, facts in compilers.compile(missing):
            compiled[request.key] = facts
            left = (monotonic() - began) / len(compiled) * (len(missing) - len(compiled))
            progress(f"compiling: {len(compiled)} of {len(missing)} builds, {cached} cached, {_duration(left)} left")
    return compiled


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
