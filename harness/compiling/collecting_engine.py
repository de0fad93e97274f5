"""The engine that collects kernels: host code runs as on the device, and kernels are recorded instead of launched.

Each new kernel goes through Triton's front end, with every config of its autotuner.  What is left of a case is a file:
the kernels with their constants, and the digests of their TTIR.  Results are uninitialised memory and judged by nobody.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import wire
from harness.compiling.build_cache import ORDERS_VARIABLE, BuildCache, Collection, CollectionOrders
from harness.engines.triton import triton_seam
from harness.engines.triton.driver import LaunchHandler, LaunchRequest, VirtualDriver
from harness.engines.triton.front_end import FRONT_END_IGNORES
from harness.engines.triton.kernel_facts import BUILD_OPTIONS
from harness.engines.triton.removed_names import removed_name
from harness.engines.triton.triton_stages import (
    CallRecorder,
    RecordedBuild,
    RecordedCall,
    compiler_version,
    front_end,
)
from harness.engines.ttir.own_names import without_locations
from harness.engines.virtual.engine import VirtualEngine
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.kernel_build import (
    CollectedBuild,
    CollectedCase,
    CollectedKernel,
    Constant,
)
from harness.model.op import Op
from harness.model.run import Completed, Run, Source
from harness.oracles.endings import describe

_LINE = re.compile(r"^at (\d+):")
LONGEST_MESSAGE = 400


class CollectingEngine(VirtualEngine):
    """Emulates a device, and records what a case would launch."""

    def emulate(self, device: DeviceProfile) -> None:
        """Show the device to host code; record launches."""
        orders = wire.from_json(os.environ[ORDERS_VARIABLE], CollectionOrders)
        self._orders = orders
        self._cache = BuildCache(Path(orders.cache))
        self._version = compiler_version(orders.target)
        self._calls: list[RecordedCall] = []
        super().emulate(device)
        CallRecorder(self._calls.append).install()

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        del on_launch
        triton_seam.set_driver(VirtualDriver(device, _launch_nothing))

    def run(self, op: Op, case: Case) -> Run:
        """Collect the kernels of a case that its suite has not launched on this device so far."""
        self._calls.clear()
        with self._state_for(case):
            ending, _ = self._execution.run_again(op, case)
        collection = self._cache.collection(self._orders.collections[op.suite])
        launches = len(self._calls)
        collected = CollectedCase(
            op=op.id,
            case=str(case),
            ending="" if isinstance(ending, Completed) else describe(ending),
            launches=launches,
            kernels=tuple(self._new_kernels(op, case, collection)),
        )
        collection.keep(case.digest, collected)
        self._calls.clear()
        return Run(case=case, engine=self.traits.name, ending=ending)

    def _new_kernels(self, op: Op, case: Case, collection: Collection) -> Iterator[CollectedKernel]:
        seen: dict[tuple[str, ...], set[str]] = {}
        for before in collection.cases():
            for kernel in before.kernels:
                file = kernel.source.file if kernel.source else ""
                seen.setdefault((kernel.environment, kernel.kernel, file), set()).add(kernel.specialisation)
        usual = {each for key, specialisations in seen.items() if not key[0] for each in specialisations}
        for call in self._calls:
            of_kernel = seen.setdefault((_environment(case), call.kernel, _file_of(call)), set())
            specialisation = _specialisation(call)
            if specialisation in of_kernel or len(of_kernel) >= self._orders.specialisations:
                continue
            of_kernel.add(specialisation)
            if not case.environment or specialisation not in usual:
                yield self._collected(op, case, call, specialisation)

    def _collected(self, op: Op, case: Case, call: RecordedCall, specialisation: str) -> CollectedKernel:
        prepared = [build for build in call.builds if build.source is not None]
        shared = _shared_constants(prepared)
        first = prepared[0].source if prepared else None
        place = triton_seam.kernel_source(first.fn) if first else None
        front_ends: dict[str, _FrontEnd] = {}
        builds = (self._build(build, shared, front_ends) for build in call.builds)
        return CollectedKernel(
            kernel=call.kernel,
            source=Source(file=place.file, line=place.line) if place else None,
            specialisation=specialisation,
            signature=_signature(first) if first else {},
            constants=shared,
            is_tuned=call.is_tuned,
            environment=_environment(case),
            op=op.id,
            case=str(case),
            builds=tuple(builds),
        )

    def _build(
        self,
        build: RecordedBuild,
        shared: Mapping[str, Constant],
        front_ends: dict[str, "_FrontEnd"],
    ) -> CollectedBuild:
        constants = _constants(build.source) if build.source is not None else {}
        options = {name: build.options[name] for name in BUILD_OPTIONS if name in build.options}
        target = self._orders.target
        done = self._front_end(build, front_ends)
        key = ""
        if done.ttir:
            text = "\n".join((done.without_locations, json.dumps(options, sort_keys=True), str(target)))
            key = hashlib.sha256(f"{text}\n{self._version}".encode()).hexdigest()[:20]
        return CollectedBuild(
            config=build.config,
            index=build.index,
            is_kept=build.is_kept,
            constants={name: value for name, value in constants.items() if name not in shared},
            target=target,
            options=options,
            key=key,
            ttir=done.ttir,
            grid=build.grid,
            failure=done.failure,
            failure_source=done.failure_source,
            removed=done.removed,
            front_end_seconds=done.take_seconds(),
        )

    def _front_end(self, build: RecordedBuild, front_ends: dict[str, "_FrontEnd"]) -> "_FrontEnd":
        if build.source is None:
            assert build.error is not None
            return _FrontEnd(failure=_message(build.error), removed=removed_name(build.error))
        source = build.source
        options = sorted((name, str(value)) for name, value in build.options.items())
        usual = [(name, value) for name, value in options if name not in FRONT_END_IGNORES]
        key, key_of_all = (f"{source.signature} {source.constants} {source.attrs} {each}" for each in (usual, options))
        if key not in front_ends:
            front_ends[key] = front_ends[key_of_all] = self._run_front_end(build)
        elif front_ends[key].read & FRONT_END_IGNORES:
            key = key_of_all
            front_ends[key] = front_ends.get(key) or self._run_front_end(build)
        return front_ends[key]

    def _run_front_end(self, build: RecordedBuild) -> "_FrontEnd":
        began = time.process_time()
        try:
            text, read = front_end(build.source, self._orders.target, build.options)
        except Exception as error:  # noqa: BLE001 - a kernel that does not compile is a fact about it
            return _FrontEnd(failure=_message(error), failure_source=_place(error, build), removed=removed_name(error))
        bare = without_locations(text)
        seconds = time.process_time() - began
        return _FrontEnd(ttir=self._cache.keep_ttir(text), without_locations=bare, read=read, seconds=seconds)


@dataclass(slots=True, kw_only=True)
class _FrontEnd:
    """What the front end made of one set of constants."""

    ttir: str = ""
    without_locations: str = ""
    read: frozenset[str] = frozenset()
    """The options that it read."""
    failure: str = ""
    failure_source: Source | None = None
    removed: str = ""
    seconds: float = 0.0

    def take_seconds(self) -> float:
        """Return the seconds for the first build that uses the result, and 0 for the others."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def _environment(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.environment)


def _file_of(call: RecordedCall) -> str:
    """Return the file of the kernel: one library may have kernels of one name in several."""
    first = next((build.source for build in call.builds if build.source is not None), None)
    return triton_seam.kernel_source(first.fn).file if first else ""


def _launch_nothing(request: LaunchRequest) -> None:
    del request


def _message(error: Exception) -> str:
    """Return kind and text of an error: the whole reason, without the quoted code above it."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    text = lines[-1].strip() if lines[0].startswith("at ") else "\n".join(lines)
    return f"{type(error).__name__}: {text}"[:LONGEST_MESSAGE]


def _place(error: Exception, build: RecordedBuild) -> Source | None:
    """Return the line that an error of the front end names: `at 12:8`, counted from the kernel's `def`."""
    place, at = triton_seam.kernel_source(build.source.fn), _LINE.match(str(error))
    return Source(file=place.file, line=place.line + (int(at[1]) - 1 if at else 0))


def _constants(source: Any) -> dict[str, Constant]:
    names = source.fn.arg_names
    constants: dict[str, Constant] = {}
    for path, value in source.constants.items():
        plain = value if isinstance(value, int | float | str) or value is None else str(value)
        constants[".".join((names[path[0]], *map(str, path[1:])))] = plain
    return constants


def _shared_constants(builds: list[RecordedBuild]) -> dict[str, Constant]:
    """Return the constants that are equal in all builds."""
    every = [_constants(build.source) for build in builds]
    return {
        name: value
        for name, value in (every[0] if every else {}).items()
        if all(constants.get(name, ...) == value for constants in every)
    }


def _signature(source: Any) -> dict[str, str]:
    return {name: str(kind) for name, kind in source.signature.items() if kind != "constexpr"}


def _specialisation(call: RecordedCall) -> str:
    """Return a digest of the call's signature, alignments and shared constants."""
    prepared = [build for build in call.builds if build.source is not None]
    first = prepared[0].source if prepared else None
    text = f"{_signature(first)} {first.attrs} {_shared_constants(prepared)}" if first else ""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
