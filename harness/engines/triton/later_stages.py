"""The stages of Triton's compiler after TTIR, in this process.  A seam, as `triton_seam` is.

The virtual GPU leaves these stages out.  Here they run for one kernel: to measure its resources, to read its layouts,
or because the program under test asks for `kernel.asm["ptx"]`.
"""

import json
import re
import tempfile
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import AsmDict, CompiledKernel, make_backend
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError

from harness.catalogue import no_backend
from harness.engines.triton.triton_releases import TESTED
from harness.errors import CannotExecute
from harness.model.device import Arch, Vendor, vendor_of
from harness.patches import PATCHES

REFUSALS = (OutOfResources, PTXASError, CompileTimeAssertionFailure)
"""The classes of `REFUSED_BUILDS`."""
BINARIES = {Vendor.NVIDIA: "cubin", Vendor.AMD: "hsaco", Vendor.INTEL: "spv"}
"""The last stage."""
ASSEMBLY = {Vendor.NVIDIA: "ptx", Vendor.AMD: "amdgcn", Vendor.INTEL: "llir"}
"""The stage whose result is assembly as text.  Nothing here compiles as far as that for Intel's GPUs."""
FIRST_STAGES = ("ttir", "ttgir")
"""The last text of a kernel here: Gluon's begin as TTGIR."""
MIDDLE_STAGES = ("ttgir", "llir")
EXECUTABLE = "executable"
"""The stage that `compile_to_executable` compiles to, as other processes name it."""
EXECUTABLE_FACTS = ("num_warps", "num_ctas", "tensordesc_meta")
NOT_COMPILED: Mapping[str, int] = {
    "shared": 0,
    "tmem_size": 0,
    "global_scratch_size": 0,
    "global_scratch_align": 1,
    "profile_scratch_size": 0,
    "profile_scratch_align": 1,
}
"""What later stages of the compiler add to a kernel's metadata, for one that never reaches them."""


WIDE_WAVES = re.compile(r"gfx9")
"""AMD's architectures with waves of 64 lanes; those of RDNA have 32."""


def target(arch: Arch) -> GPUTarget:
    """Return Triton's compilation target for machine code: of an NVIDIA or AMD GPU."""
    lanes = 64 if isinstance(arch, str) and WIDE_WAVES.match(arch) else 32
    return GPUTarget(str(vendor_of(arch)), arch, lanes)


@dataclass(frozen=True, slots=True)
class CompiledBinary:
    """The result of the whole compiler pipeline."""

    metadata: Mapping[str, Any]
    binary: bytes
    """The cubin, or AMD's code object."""
    assembly: str


def has_layouts(text: str) -> bool:
    """Return True for TTGIR, which is what a kernel in Gluon begins as."""
    return '"ttg.num-warps" = ' in text


def _compile(text: str, there: GPUTarget, options: Mapping[str, Any]) -> Any:
    """Compile TTIR or TTGIR, and return Triton's `CompiledKernel`.  Triton tells the two by the suffix of the file."""
    with tempfile.TemporaryDirectory(prefix="kernel-harness-") as folder:
        path = Path(folder) / f"kernel.{'ttgir' if has_layouts(text) else 'ttir'}"
        path.write_text(text)
        return triton.compile(str(path), target=there, options=dict(options))


def compile_to_binary(ttir: str, arch: Arch, options: Mapping[str, Any]) -> CompiledBinary:
    """Compile a TTIR text to machine code, which needs no GPU.  Exceptions of Triton pass through."""
    vendor = vendor_of(arch)
    with whole_pipeline():
        compiled = _compile(ttir, target(arch), options)
    return CompiledBinary(compiled.metadata._asdict(), compiled.asm[BINARIES[vendor]], compiled.asm[ASSEMBLY[vendor]])


def compile_to_stage(ttir: str, stage: str, arch: Arch, options: Mapping[str, Any]) -> str:
    """Compile a TTIR text no further than to a stage, `ttgir`, `ptx`, `amdgcn` or `executable`, and return that text.

    Exceptions of Triton pass through.
    """
    if stage == EXECUTABLE:
        return compile_to_executable(ttir, arch, options)
    if has_layouts(ttir) and stage == "ttgir":
        return ttir
    with whole_pipeline(partial(_cut_after, stage)), knobs.compilation.scope():
        knobs.compilation.disable_line_info = False
        knobs.compilation.listener = None  # `on_compile` is about front ends
        # Up to Triton 3.8 the cut is no part of the cache's key, but the text is.
        return _compile(f"{ttir}\n// {stage}\n", target(arch), options).asm[stage]


def compile_to_executable(ttir: str, arch: Arch, options: Mapping[str, Any]) -> str:
    """Compile a TTIR text to PTX, and return that as JSON with what a launch of it needs to know.

    Exceptions of Triton pass through.
    """
    last = ASSEMBLY[Vendor.NVIDIA]
    with whole_pipeline(partial(_cut_after, last)), knobs.compilation.scope():
        knobs.compilation.disable_line_info = False
        knobs.compilation.listener = None
        compiled = _compile(f"{ttir}\n// {last}\n", target(arch), options)
    metadata = compiled.metadata._asdict()
    facts = {name: metadata.get(name) for name in (*EXECUTABLE_FACTS, *NOT_COMPILED)}
    return json.dumps({"ptx": compiled.asm[last], **facts})


def _cut_after(
    stage: str, backend: Any = None, stages: MutableMapping[str, Any] | None = None, *_: Any, **__: Any
) -> tuple[str, str] | None:
    if backend is None or stages is None:  # as in `_cut_after_ttir`
        return f"kernel-harness: up to {stage}", f"kernel-harness: up to {stage}"
    names = list(stages)
    for name in names[names.index(stage) + 1 :]:
        del stages[name]
    stages[backend.binary_ext] = _no_binary
    return None


def _no_binary(module: Any, metadata: MutableMapping[str, Any]) -> bytes:
    del module
    metadata.update({"name": "", **NOT_COMPILED, **metadata})
    return b"none"


@contextmanager
def whole_pipeline(hook: Any = None) -> Generator[None]:
    """Compile through all stages, or as the hook says."""
    outer = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = outer


@cache
def compile_texts_on_request() -> None:
    """Let `asm` of kernels that end at TTIR have the later stages too, in this process."""
    construct = CompiledKernel.__init__

    def construct_kernel(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        assembly = ASSEMBLY[Vendor(self.metadata.target.backend)]
        if assembly not in self.asm and any(stage in self.asm for stage in FIRST_STAGES):
            self.asm = _RequestedTexts(self)

    why = "compile the later stages of a kernel when a program reads one"
    PATCHES.replace(CompiledKernel, "__init__", construct_kernel, why=why, releases=TESTED)


class _RequestedTexts(AsmDict):
    """The stages of one kernel by name; those that the virtual GPU leaves out are compiled when one of them is read."""

    def __init__(self, kernel: Any) -> None:
        vendor = Vendor(kernel.metadata.target.backend)
        binary = BINARIES[vendor]
        super().__init__({stage: text for stage, text in kernel.asm.items() if stage != binary})
        self._metadata = kernel.metadata
        self._later = (*MIDDLE_STAGES, ASSEMBLY[vendor], binary)

    def __contains__(self, stage: object) -> bool:
        return super().__contains__(stage) or stage in self._later

    def __missing__(self, stage: str) -> Any:
        if stage not in self._later:
            return super().__missing__(stage)  # which makes `sass` of the cubin, and refuses the rest
        first = next(self[name] for name in FIRST_STAGES if name in self.keys())
        compiled = _compiled_further(first, self._metadata)
        self.update({later: compiled.asm[later] for later in self._later})
        return self[stage]

    def get(self, stage: str, default: Any = None) -> Any:
        return self[stage] if stage in self else default  # noqa: SIM401 - this is `get`


def _compiled_further(ttir: str, metadata: Any) -> Any:
    """Compile a kernel with the options that it was compiled with.  Exceptions of Triton pass through.

    Raises:
        CannotExecute: it is for an Intel GPU.
    """
    if metadata.target.backend == Vendor.INTEL:
        raise CannotExecute(no_backend(triton.__version__))
    known: Any = make_backend(metadata.target).parse_options({})
    options = {field.name: getattr(metadata, field.name, None) for field in fields(known)}
    set_options = {name: _hashable(value) for name, value in options.items() if value is not None}
    with whole_pipeline():
        return _compile(f"{ttir}\n// whole\n", metadata.target, set_options)  # as in `compile_to_stage`


def _hashable(value: Any) -> Any:
    """Return an option that JSON has made a list as the tuple that it was."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
