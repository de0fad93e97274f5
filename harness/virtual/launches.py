"""Executes the launches of one case and keeps their facts: what Triton's driver talks to."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.errors import CannotExecute
from harness.model.case import LaneFill
from harness.model.run import Launch, MemoryEvent, Resources, Unsupported
from harness.ops.poison import Poison
from harness.virtual.binding import Binding
from harness.virtual.builds import BUILD_SUFFIX, RESOURCES_SUFFIX
from harness.virtual.driver import LaunchRequest
from harness.virtual.events import Events
from harness.virtual.ir import Module
from harness.virtual.machine import Grid, Machine, Stopped
from harness.virtual.memory import Memory
from harness.virtual.operations import HANDLERS
from harness.virtual.parser import parse
from harness.virtual.triton_seam import Chosen, ask_for_scratch, version

WANTS_SCRATCH = frozenset({"tt.make_tensor_descriptor", "ttng.tensormap_create"})
"""Operations for which the compiler may ask scratch memory; only kernels with one are compiled whole at once."""
BUILD_OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid")
_INTEGERS = re.compile(r"%\S+ = arith\.constant (?:dense<)?-?\d+>?(?= : )|%c-?\d+\w*")
_LOCATIONS = re.compile(r"\s*loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()]|\([^()]*\))*\))*\)|^#loc.*$", re.MULTILINE)


@dataclass(slots=True)
class Session:
    """What one case launched so far."""

    lane_fill: LaneFill = LaneFill.ZERO
    launches: list[Launch] = field(default_factory=list[Launch])
    memory: list[MemoryEvent] = field(default_factory=list[MemoryEvent])
    unsupported: Unsupported | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    writers: dict[int, tuple[str, str]] = field(default_factory=dict[int, "tuple[str, str]"])
    """By address of a storage, the kernel and argument that stored to it last."""

    def add_seconds(self, part: str, seconds: float) -> None:
        """Account for time spent."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds


class Launches:
    """The launch handler of a worker process.

    `chosen` tells the autotune config under which Triton launches; `poison_of` which storages are fresh; `builds` is
    the folder in which TTIR texts are left for whoever compiles them whole.
    """

    def __init__(
        self,
        arch: int,
        chosen: Callable[[], Chosen],
        poison_of: Callable[[int], Poison | None],
        compile_now: Callable[[str, Mapping[str, Any]], Resources],
        builds: Path | None,
    ) -> None:
        self.session = Session()
        self._arch = arch
        self._chosen = chosen
        self._poison_of = poison_of
        self._compile_now = compile_now
        self._builds = builds
        self._modules: dict[str, _Compiled] = {}

    def __call__(self, request: LaunchRequest) -> None:
        """Execute one launch.

        Raises:
            CannotExecute: something in the kernel is not known; the session keeps what and where.
        """
        session = self.session
        try:
            compiled = self._compiled(request)
            scratch = self._scratch(compiled, request)
            session.launches.append(self._describe(compiled, request, scratch))
            if scratch:
                ask_for_scratch(scratch, compiled.scratch_align, request.stream)
            self._execute(compiled, request)
        except CannotExecute as error:
            if session.unsupported is None:
                session.unsupported = self._explain(request, error)
            raise

    def _compiled(self, request: LaunchRequest) -> "_Compiled":
        options = {name: getattr(request.metadata, name) for name in BUILD_OPTIONS if hasattr(request.metadata, name)}
        key = request.ttir + json.dumps(options)
        if key not in self._modules:
            began = time.perf_counter()
            module = parse(request.ttir)
            compiled = _Compiled(module, build_digest(request.ttir, self._arch, options), options, _tile_sizes(module))
            self.session.add_seconds("parse", time.perf_counter() - began)
            if any(operation.name in WANTS_SCRATCH for operation in module.kernel.body.all_operations()):
                resources = self._compile_now(request.ttir, options)
                compiled.scratch_bytes_per_program = resources.scratch_bytes_per_program
            self._leave_build(request.ttir, compiled)
            self._modules[key] = compiled
        return self._modules[key]

    def _leave_build(self, ttir: str, compiled: "_Compiled") -> None:
        if self._builds is None:
            return
        path = self._builds / f"{compiled.build}{BUILD_SUFFIX}"
        if not path.exists() and not path.with_suffix(RESOURCES_SUFFIX).exists():
            self._builds.mkdir(parents=True, exist_ok=True)
            content = {"arch": self._arch, "options": compiled.options, "shape": _shape_digest(ttir), "ttir": ttir}
            draft = path.with_suffix(f".{time.monotonic_ns()}")
            draft.write_text(json.dumps(content))
            draft.rename(path)

    def _scratch(self, compiled: "_Compiled", request: LaunchRequest) -> int:
        x, y, z = request.grid
        return x * y * z * getattr(request.metadata, "num_ctas", 1) * compiled.scratch_bytes_per_program

    def _describe(self, compiled: "_Compiled", request: LaunchRequest, scratch: int) -> Launch:
        chosen = self._chosen()
        kernel = compiled.module.kernel
        return Launch(
            kernel=request.source.fn.__name__,
            source=compiled.module.source(kernel.location),
            grid=request.grid,
            config=chosen.text or f"num_warps: {request.metadata.num_warps}, num_stages: {request.metadata.num_stages}",
            config_index=chosen.index,
            config_count=chosen.count,
            num_warps=request.metadata.num_warps,
            constants=_constants(request.source),
            tile_sizes=compiled.tile_sizes,
            build=compiled.build,
            scratch_bytes=scratch,
        )

    def _execute(self, compiled: "_Compiled", request: LaunchRequest) -> None:
        grid = Grid(*request.grid)
        if not grid.programs:
            return
        session = self.session
        began = time.perf_counter()
        module = compiled.module
        given = dict(zip(request.source.fn.arg_names, request.arguments, strict=False))
        binding = Binding(module.kernel, request.source.signature, given, self._poison_of)
        events = Events()
        machine = Machine(module, Memory(binding.arguments, events), grid, session.lane_fill, HANDLERS)
        name = request.source.fn.__name__
        for argument in binding.written:
            if argument.buffer is not None:
                session.writers[argument.buffer.address] = (name, argument.name)
        try:
            machine.run(binding.values)
        finally:
            session.memory += events.finish(name, len(session.launches) - 1, binding.arguments, module.source)
            session.add_seconds("execution", time.perf_counter() - began)

    def _explain(self, request: LaunchRequest, error: CannotExecute) -> Unsupported:
        source = None
        if isinstance(error, Stopped):
            source = parse(request.ttir).source(error.location)
        return Unsupported(what=error.what, kernel=request.source.fn.__name__, source=source, triton_version=version)


@dataclass(slots=True)
class _Compiled:
    module: Module
    build: str
    options: Mapping[str, Any]
    tile_sizes: tuple[int, ...]
    scratch_bytes_per_program: int = 0
    scratch_align: int = 128


@lru_cache(maxsize=1024)
def _without_locations(ttir: str) -> str:
    return _LOCATIONS.sub("", ttir)


def build_digest(ttir: str, arch: int, options: Mapping[str, Any]) -> str:
    """Names what the compiler is given: TTIR without source locations, options, architecture, Triton version."""
    text = "\n".join((_without_locations(ttir), str(arch), json.dumps(options, sort_keys=True), version))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shape_digest(ttir: str) -> str:
    """Equal for kernels that differ in the values of integer constants alone."""
    return hashlib.sha256(_INTEGERS.sub("arith.constant", _without_locations(ttir)).encode()).hexdigest()[:16]


def _constants(source: Any) -> dict[str, int | float | bool | str | None]:
    names = source.fn.arg_names
    found: dict[str, int | float | bool | str | None] = {}
    for path, value in source.constants.items():
        plain = value if isinstance(value, int | float | str) or value is None else str(value)
        found[names[path[0]] if isinstance(path, tuple) else str(path)] = plain
    return found


def _tile_sizes(module: Module) -> tuple[int, ...]:
    sizes: set[int] = set()
    for operation in module.kernel.body.all_operations():
        if operation.name in {"tt.load", "tt.store"}:
            sizes.update(extent for extent in operation.operand_types[0].shape if extent > 1)
    return tuple(sorted(sizes))
