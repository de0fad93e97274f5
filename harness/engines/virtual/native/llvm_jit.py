"""Compiles LLVM IR to machine code for this computer, through llvmlite; no other file imports it."""

import itertools
import resource
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import llvmlite
import llvmlite.binding as llvm

ROOM_BYTES = 512 * 2**20
_limit_lock = threading.Lock()
_NAMES = itertools.count()
"""Each linked library needs a unique name."""


class Effort(StrEnum):
    """How long LLVM works on a module.  The code computes the same bits."""

    LEAST = "least"
    """Stack slots become registers, and instructions are chosen one by one: a quarter of the time of `USUAL`."""
    USUAL = "usual"
    """Stack slots become registers, and instructions are chosen in context."""
    MOST = "most"
    """All of LLVM's passes of level 2 too, for text that repeats itself: twice the time of `USUAL`."""


_LEVELS = {Effort.LEAST: 0, Effort.USUAL: 2, Effort.MOST: 2}


@dataclass(frozen=True, slots=True)
class Host:
    """The CPU that code is compiled for."""

    cpu: str
    features: str
    width: int
    """Float32 lanes of a vector: one 512-bit register, otherwise 256 bits in one or two registers."""
    has_fma: bool
    llvm: str


@cache
def host() -> Host:
    """This computer's CPU, as LLVM reports it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    version = ".".join(map(str, llvm.llvm_version_info))
    return Host(
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten(),
        width=16 if features.get("avx512f") else 8,
        has_fma=bool(features.get("fma")) or llvm.get_default_triple().startswith(("aarch64", "arm64")),
        llvm=f"{version} {llvmlite.__version__}",
    )


@cache
def _machine(level: int = 2) -> llvm.TargetMachine:
    computer = host()  # it makes LLVM know the target
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=computer.cpu, features=computer.features, opt=level, reloc="pic")


def compile_object(text: str, effort: Effort = Effort.MOST) -> bytes:
    """Compile a module to an object file.  llvmlite releases the GIL while LLVM works."""
    with _room_for_llvm():
        return _compiled_object(text, effort)


def _compiled_object(text: str, effort: Effort) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine(_LEVELS[effort])
    if effort is Effort.MOST:
        _optimise(module, machine)
    else:
        _promote_slots(module, machine)
    return machine.emit_object(module)


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # the code is vectorised already
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _promote_slots(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Keep values of stack slots in registers, and do no more: the lowering writes each value once."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


class Code:
    """A loaded object file; its code is unloaded with the last reference to this object."""

    def __init__(self, image: bytes, symbol: str, used: Mapping[str, "Code"] | None = None) -> None:
        """`used` is the code that it calls, by symbol."""
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(symbol)
        self._used = dict(used or {})
        for name, code in self._used.items():
            library.import_symbol(name, code.address)
        with _room_for_llvm():
            self._tracker = library.link(_linker(), f"kernel {next(_NAMES)}")
        self.address: int = self._tracker[symbol]


@cache
def _linker() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_machine())


@contextmanager
def _room_for_llvm() -> Generator[None]:
    """Raise a memory limit of this process for a while: LLVM aborts the process if it gets no memory."""
    granted = _change_limit(ROOM_BYTES)
    try:
        yield
    finally:
        _change_limit(-granted)


def _change_limit(by_bytes: int) -> int:
    """Change the limit by this much, or as far as the hard limit allows, and return by how much.

    It is relative, for another thread may set or lift the limit meanwhile.
    """
    with _limit_lock:
        limit, most = resource.getrlimit(resource.RLIMIT_DATA)
        if limit == resource.RLIM_INFINITY:
            return 0
        changed = max(0, limit + by_bytes)
        if most != resource.RLIM_INFINITY:
            changed = min(changed, most)
        resource.setrlimit(resource.RLIMIT_DATA, (changed, most))
        return changed - limit
