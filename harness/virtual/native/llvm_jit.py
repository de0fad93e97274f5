"""LLVM IR to machine code for this computer, through llvmlite; everything that is private to LLVM stays here."""

import itertools
from dataclasses import dataclass
from functools import cache

import llvmlite
import llvmlite.binding as llvm

OPTIMISATION = 2
_NAMES = itertools.count()
"""What is linked needs a name that nothing else had."""


@dataclass(frozen=True, slots=True)
class Host:
    """The computer that code is made for."""

    cpu: str
    features: str
    width: int
    """Lanes of float32 in a register, or two registers' worth where they are short."""
    has_fma: bool
    llvm: str


@cache
def host() -> Host:
    """This computer, as LLVM knows it."""
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
    """Machine code of a module, as an object file.  Gives way to other threads while LLVM works."""
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMISATION)
    options.loop_vectorization = False  # the code is made of vectors already
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


class Code:
    """An object file, loaded; its code goes when the last reference to this goes."""

    def __init__(self, image: bytes, symbol: str) -> None:
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(symbol)
        self._tracker = library.link(_linker(), f"kernel {next(_NAMES)}")
        self.address: int = self._tracker[symbol]


@cache
def _linker() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_machine())
