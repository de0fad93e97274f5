"""In a process whose kernels Triton compiles with a sanitizer: turns it on, and sees of each whether it took effect.

Triton ignores the name of a sanitizer that it does not know, and says of each kernel what was asked for: only the code
that was made tells.
"""

import importlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend

from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.sanitizers.fpsan_runs import NUMBERS
from harness.cuda.sanitizers.instrumentation import Instrumenting, of_this_process
from harness.model.triton_sanitizer_report import Instrumentation, Instrumented

CALLED = {
    Instrumentation.GSAN: (".ptx", "__triton_gsan_"),
    Instrumentation.CONSAN: (".ptx", "__triton_consan_"),
    Instrumentation.FPSAN: (".ttgir", "tti.experimental_fpsan_"),
}
"""What stands in a kernel's code that calls the sanitizer, and in which of its files."""
COMPUTES = re.compile(r"\barith\.\w+f\b|\bmath\.|\btt\.dot\b")
"""Of TTIR: what FpSan replaces."""
ASSERTED = re.compile(r'\btt\.assert [^"\n]*"((?:[^"\\]|\\.)*)"')
"""The text of a kernel's own assertion, in TTIR."""
ESCAPED = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))")


def turned_on(gpu: RealGpu) -> Instrumenting | None:
    """Have Triton compile every kernel of this process as its parent wants it, for good; that, where it is told."""
    told = of_this_process()
    if told is not None:
        knobs.compilation.instrumentation_mode = told.mode
        if told.mode is Instrumentation.GSAN:
            _keep_programs_apart(gpu.shared_bytes_per_block)
    return told


class InstrumentedBuilds:
    """The kernels that were loaded onto the GPU."""

    def __init__(self, told: Instrumenting) -> None:
        self._told = told
        self._plain: set[str] = set()
        """Those that were compiled without a call of the sanitizer, and have something that it watches."""
        self._asserts: dict[str, set[str]] = {}
        self._need_numbers: set[str] = set()
        """Those that need more of numbers than FpSan's integers have."""
        knobs.runtime.kernel_load_end_hook.add(cast("Any", self._loaded))

    def watched(self, kernels: Iterable[str], unwatched: str) -> Instrumented:
        """What there is to say of a case that launched these kernels; `unwatched` is the reason why a store was not."""
        launched = tuple(kernels)
        names = dict.fromkeys(launched)
        plain = ", ".join(name for name in names if name in self._plain)
        return Instrumented(
            mode=self._told.mode,
            version=self._told.version,
            launches=len(launched),
            asserts=tuple(sorted({text for name in names for text in self._asserts.get(name, ())})),
            unproven=f"{plain} was compiled without {self._told.mode}" if plain else unwatched,
        )

    def incomparable(self, kernels: Iterable[str]) -> str:
        """Why FpSan's results may differ though the kernels are right; empty where they may not."""
        ordered = ", ".join(name for name in dict.fromkeys(kernels) if name in self._need_numbers)
        return (
            f"{ordered} takes a maximum, meets an infinity or adds by atomics, which FpSan does not do exactly"
            if ordered
            else ""
        )

    def _loaded(self, module: Any, function: int, name: str, metadata_group: Mapping[str, str], digest: str) -> None:
        del module, function, digest
        files = {Path(file).suffix: Path(path) for file, path in metadata_group.items()}
        suffix, call = CALLED[self._told.mode]
        if call not in _text(files, suffix) and self._has_to_call(files):
            self._plain.add(name)
        ttir = _text(files, ".ttir")
        self._asserts.setdefault(name, set()).update(asserted(ttir))
        if NUMBERS.search(ttir):
            self._need_numbers.add(name)

    def _has_to_call(self, files: Mapping[str, Path]) -> bool:
        """Whether a kernel has anything that the sanitizer watches."""
        match self._told.mode:
            case Instrumentation.GSAN:
                return True
            case Instrumentation.CONSAN:
                told = json.loads(_text(files, ".json") or "{}")
                return bool(told.get("shared") or told.get("tmem_size") or not told)
            case Instrumentation.FPSAN:
                return COMPUTES.search(_text(files, ".ttir")) is not None


def obstacle(told: Instrumenting) -> str:
    """Why kernels cannot run so in processes forked from this one, where CUDA is not started; empty where they can."""
    if told.mode is not Instrumentation.GSAN:
        return ""
    try:
        _gsan().get_allocator()
    except Exception as error:  # noqa: BLE001 - no compiler, or one that fails, or its linker: their words are told
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return f"GSan's allocator cannot be built, which takes a C++ compiler ({said})"
    return ""


def asserted(ttir: str) -> set[str]:
    """The texts of a kernel's own assertions, as they are printed."""
    return set(map(_unescaped, ASSERTED.findall(ttir)))


def pool(*, write_once: bool) -> Any:
    """A pool of memory that GSan watches; each cell of it is to be written once, and before it is read, if so asked."""
    return _gsan().create_mem_pool(write_once=write_once)


def _gsan() -> Any:
    return importlib.import_module("triton.experimental.gsan")


def _unescaped(text: str) -> str:
    """A string of TTIR as it is printed: bytes of its UTF-8 stand there as two hexadecimal digits."""
    plain = ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else found[2], text.encode())
    return plain.decode(errors="replace")


def _text(files: Mapping[str, Path], suffix: str) -> str:
    return files[suffix].read_text(encoding="utf-8") if suffix in files else ""


def _keep_programs_apart(shared_bytes: int) -> None:
    """Have each program take all shared memory that there is, whatever the GPU is told to have.

    GSan keeps one clock for each SM, and has Triton's driver tell how much keeps a second program away.
    """
    parse = CUDABackend.parse_options

    def parse_options(self: Any, opts: Any) -> Any:
        return parse(self, {**opts, "min_shared_mem": shared_bytes})

    CUDABackend.parse_options = parse_options
