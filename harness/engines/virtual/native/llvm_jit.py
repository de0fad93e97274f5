"""Compiles LLVM IR to machine code for this computer, through llvmlite; no other file imports it."""

import itertools
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import llvmlite
import llvmlite.binding as llvm

OPTIMISATION = 2
ROOM_BYTES = 512 * 2**20
_limit_lock = threading.Lock()
_NAMES = itertools.count()
"""Each linked library needs a unique name."""


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
def _machine() -> llvm.TargetMachine:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=host().cpu, features=host().features, opt=OPTIMISATION, reloc="pic")


def compile_object(text: str) -> bytes:
    """Compile a module to an object file.  llvmlite releases the GIL while LLVM works."""
    with _room_for_llvm():
        return _compiled_object(text)


def _compiled_object(text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMISATION)
    options.loop_vectorization = False  # the code is vectorised already
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


class Code:
    """A loaded object file; its code is unloaded with the last reference to this object."""

    def __init__(self, image: bytes, symbol: str) -> None:
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(symbol)
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
