"""The stages of Triton's compiler after TTIR, in this process.  A seam, as `triton_seam` is.

The virtual GPU leaves these stages out.  Here they run for one kernel: to measure its resources, to read its layouts,
or because the program under test asks for `kernel.asm["ptx"]`.
"""

import json
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

from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES

REFUSALS = (OutOfResources, PTXASError, CompileTimeAssertionFailure)
"""The classes of `REFUSED_BUILDS`."""
BINARY = "cubin"
LAST_TEXT = "ptx"
FIRST_STAGES = ("ttir", "ttgir")
"""The last text of a kernel here: Gluon's begin as TTGIR."""
LATER_STAGES = ("ttgir", "llir", LAST_TEXT)
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


def target(arch: int, warp_size: int) -> GPUTarget:
    """Return Triton's compilation target."""
    return GPUTarget("cuda", arch, warp_size)


@dataclass(frozen=True, slots=True)
class CompiledBinary:
    """The result of the whole compiler pipeline."""

    metadata: Mapping[str, Any]
    cubin: bytes


def has_layouts(text: str) -> bool:
    """Return True for TTGIR, which is what a kernel in Gluon begins as."""
    return '"ttg.num-warps" = ' in text


def _compile(text: str, there: GPUTarget, options: Mapping[str, Any]) -> Any:
    """Compile TTIR or TTGIR, and return Triton's `CompiledKernel`.  Triton tells the two by the suffix of the file."""
    with tempfile.TemporaryDirectory(prefix="kernel-harness-") as folder:
        path = Path(folder) / f"kernel.{'ttgir' if has_layouts(text) else 'ttir'}"
        path.write_text(text)
        return triton.compile(str(path), target=there, options=dict(options))


def compile_to_cubin(ttir: str, arch: int, options: Mapping[str, Any]) -> CompiledBinary:
    """Compile a TTIR text to a cubin, which needs no GPU.  Exceptions of Triton pass through."""
    with whole_pipeline():
        compiled = _compile(ttir, target(arch, 32), options)
    return CompiledBinary(compiled.metadata._asdict(), compiled.asm[BINARY])


def compile_to_stage(ttir: str, stage: str, arch: int, options: Mapping[str, Any]) -> str:
    """Compile a TTIR text no further than to a stage, `ttgir`, `ptx` or `executable`, and return that text.

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
        return _compile(f"{ttir}\n// {stage}\n", target(arch, 32), options).asm[stage]


def compile_to_executable(ttir: str, arch: int, options: Mapping[str, Any]) -> str:
    """Compile a TTIR text to PTX, and return that as JSON with what a launch of it needs to know.

    Exceptions of Triton pass through.
    """
    with whole_pipeline(partial(_cut_after, LAST_TEXT)), knobs.compilation.scope():
        knobs.compilation.disable_line_info = False
        knobs.compilation.listener = None
        compiled = _compile(f"{ttir}\n// {LAST_TEXT}\n", target(arch, 32), options)
    metadata = compiled.metadata._asdict()
    facts = {name: metadata.get(name) for name in (*EXECUTABLE_FACTS, *NOT_COMPILED)}
    return json.dumps({"ptx": compiled.asm[LAST_TEXT], **facts})


def _cut_after(
    stage: str, backend: Any = None, stages: MutableMapping[str, Any] | None = None, *_: Any, **__: Any
) -> tuple[str, str] | None:
    if backend is None or stages is None:  # as in `_cut_after_ttir`
        return f"kernel-harness: up to {stage}", f"kernel-harness: up to {stage}"
    names = list(stages)
    for name in names[names.index(stage) + 1 :]:
        del stages[name]
    stages["cubin"] = _no_binary
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
        if LAST_TEXT not in self.asm and any(stage in self.asm for stage in FIRST_STAGES):
            self.asm = _RequestedTexts(self)

    why = "compile the later stages of a kernel when a program reads one"
    PATCHES.replace(CompiledKernel, "__init__", construct_kernel, why=why, releases=TESTED)


class _RequestedTexts(AsmDict):
    """The stages of one kernel by name; those that the virtual GPU leaves out are compiled when one of them is read."""

    def __init__(self, kernel: Any) -> None:
        super().__init__({stage: text for stage, text in kernel.asm.items() if stage != BINARY})
        self._metadata = kernel.metadata

    def __contains__(self, stage: object) -> bool:
        return super().__contains__(stage) or stage in {*LATER_STAGES, BINARY}

    def __missing__(self, stage: str) -> Any:
        if stage not in {*LATER_STAGES, BINARY}:
            return super().__missing__(stage)  # which makes `sass` of the cubin, and refuses the rest
        first = next(self[name] for name in FIRST_STAGES if name in self.keys())
        self.update(_later_texts(first, self._metadata))
        return self[stage]

    def get(self, stage: str, default: Any = None) -> Any:
        return self[stage] if stage in self else default  # noqa: SIM401 - this is `get`


def _later_texts(ttir: str, metadata: Any) -> Mapping[str, Any]:
    """Compile a kernel with the options that it was compiled with.  Exceptions of Triton pass through."""
    known: Any = make_backend(metadata.target).parse_options({})
    options = {field.name: getattr(metadata, field.name, None) for field in fields(known)}
    set_options = {name: _hashable(value) for name, value in options.items() if value is not None}
    with whole_pipeline():
        compiled = _compile(f"{ttir}\n// whole\n", metadata.target, set_options)  # as in `compile_to_stage`
    return {stage: compiled.asm[stage] for stage in (*LATER_STAGES, BINARY)}


def _hashable(value: Any) -> Any:
    """Return an option that JSON has made a list as the tuple that it was."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
