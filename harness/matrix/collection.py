"""Collects kernels: runs a few cases of each op in workers that emulate each device, or finds them in the cache.

What a case launches is collected once for each content of library and suite, device, Triton, and set of targets.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import wire
from harness.compiling.build_cache import ORDERS_VARIABLE, BuildCache, Collection, CollectionOrders
from harness.findings.versions import versions
from harness.matrix.cases import cases_of
from harness.model.case import HARNESS_FOLDER, Case
from harness.model.device import DeviceProfile
from harness.model.kernel_build import CollectedCase, CompileTarget
from harness.model.run import Completed
from harness.oracles.endings import describe
from harness.search.options import Options
from harness.search.session import prepared
from harness.suite_files import located
from harness.wording import counted
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import GIB, VIRTUAL_GIB, WorkerSpec

FACTORY = "harness.compiling.collecting_engine:CollectingEngine"
MEMORY_GIB = 2 * VIRTUAL_GIB
DECISIVE_PREFIXES = ("TRITON_", "PTXAS", "DISABLE_PTXAS")
"""Variables that decide what Triton compiles; so do those that begin with a library's first name, as `FLA_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRequest:
    """What to collect."""

    options: Options
    library_paths: tuple[str, ...]
    cases: int
    """Of each op on each device."""
    specialisations: int
    """Of each kernel, for each suite and device."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels to compile; empty means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCollection:
    """The collected cases of one device."""

    device: DeviceProfile
    cases: tuple[CollectedCase, ...]


def collect(
    request: CollectionRequest, cache: BuildCache, progress: Callable[[str], None]
) -> tuple[DeviceCollection, ...]:
    """Collect the kernels of all ops on all devices.

    Raises:
        SuiteError, LibraryError, WorkerError: a process cannot load what it needs.
    """
    collectors = [_Collector(request, cache, device) for device in request.options.devices]
    missing = [collector for collector in collectors if collector.missing]
    if missing:
        _run(request, missing, progress)
    return tuple(DeviceCollection(device=each.device, cases=tuple(each.collected)) for each in collectors)


def target_of(device: DeviceProfile) -> CompileTarget:
    return CompileTarget(vendor=device.vendor, arch=str(device.arch), warp_size=device.warp_size)


class _Collector:
    """Collects on one device, case after case: what is new depends on the cases before."""

    def __init__(self, request: CollectionRequest, cache: BuildCache, device: DeviceProfile) -> None:
        self.device = device
        self._options = request.options
        keys = {suite: collection_key(request, suite, device) for suite in request.options.suites}
        self.orders = CollectionOrders(
            cache=str(cache.folder.resolve()),
            collections=keys,
            target=target_of(device),
            specialisations=request.specialisations,
        )
        collections = {suite: cache.collection(key) for suite, key in keys.items()}
        self.missing: list[tuple[Collection, Case]] = []
        self.collected: list[CollectedCase] = []
        for op in request.options.ops:
            for case in cases_of(op, device, request.cases, request.options.seed):
                known = collections[op.suite].case(case.digest)
                if known is None or not _is_whole(known, cache):
                    self.missing.append((collections[op.suite], case))
                else:
                    self.collected.append(known)

    def run(self, pool: Pool, ran: Callable[[Case], None]) -> None:
        for collection, case in self.missing:
            run = pool.run(case)
            known = collection.case(case.digest)
            if known is None:
                ending = "" if isinstance(run.ending, Completed) else describe(run.ending)
                known = CollectedCase(op=case.op, case=str(case), ending=ending, launches=0, kernels=())
            self.collected.append(known)
            ran(case)


def _is_whole(case: CollectedCase, cache: BuildCache) -> bool:
    return all(not build.ttir or cache.has_ttir(build.ttir) for kernel in case.kernels for build in kernel.builds)


def _run(request: CollectionRequest, collectors: Sequence[_Collector], progress: Callable[[str], None]) -> None:
    options = request.options
    orders = {each.device: each.orders for each in collectors}
    processes = min(options.processes or 1, len(collectors))
    total, done = sum(len(each.missing) for each in collectors), 0

    def ran(case: Case) -> None:
        nonlocal done
        with lock:
            done += 1
            progress(f"collecting kernels: {done} of {counted(total, 'case')}, last {case}")

    def work() -> None:
        try:
            while True:
                with lock:
                    if not waiting or errors:
                        return
                    collector = waiting.pop(0)
                collector.run(pool, ran)
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            errors.append(error)

    lock, errors, waiting = threading.Lock(), list[Exception](), list(collectors)
    pool_options = PoolOptions(is_limit_adaptive=False, sends_ahead=False)
    with Pool(
        lambda device: _spec(request, device, orders[device]), processes, options.time_limit_s, pool_options
    ) as pool:
        threads = [threading.Thread(target=work, daemon=True) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def _spec(request: CollectionRequest, device: DeviceProfile, orders: CollectionOrders) -> WorkerSpec:
    options = request.options
    return WorkerSpec(
        device=device,
        suites=options.suites,
        project=str(options.project),
        scratch=str(prepared(HARNESS_FOLDER) / "scratch"),
        library_paths=request.library_paths,
        engine=FACTORY,
        memory_limit_bytes=GIB * MEMORY_GIB,
        environment=((ORDERS_VARIABLE, wire.to_json(orders)),),
    )


def collection_key(request: CollectionRequest, suite: str, device: DeviceProfile) -> str:
    """Return a digest of everything that decides what the cases of a suite launch on a device."""
    file = located(suite, request.options.project)
    files = [file, *sorted(file.parent.rglob("*.py"))]
    decisive = {
        "versions": dict(versions()),
        "environment": _decisive_environment(os.environ, request.options.libraries),
        "libraries": [_contents(folder) for folder in request.library_paths],
        "suite": [suite, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in dict.fromkeys(files))],
        "device": asdict(device),
        "specialisations": request.specialisations,
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _decisive_environment(environment: Mapping[str, str], libraries: Iterable[str]) -> dict[str, str]:
    own = tuple(f"{name.partition('-')[0].partition('=')[0].upper()}_" for name in libraries if "/" not in name)
    volatile = {"TRITON_CACHE_DIR"}
    return {
        name: value
        for name, value in environment.items()
        if name.startswith((*DECISIVE_PREFIXES, *own)) and name not in volatile
    }


def _contents(folder: str) -> str:
    """Return a digest of the names, sizes and times of a library's Python files: fast, and it changes with an edit."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.py")):
        state = path.stat()
        digest.update(f"{path.relative_to(folder)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return f"{Path(folder).name} {digest.hexdigest()}"
