"""Enables one of Triton's sanitizers in a worker, and checks that each compiled kernel contains its checks.

Triton ignores the name of an unknown sanitizer, and a kernel's metadata repeat what was requested.  So only the
compiled code shows whether a kernel is instrumented.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.fpsan_runs import INEXACT
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting, instrumentation_from
from harness.engines.triton.triton_seam import gsan, instrument, on_load, reserve_shared_memory
from harness.model.triton_sanitizer_report import Instrumentation, Instrumented

SANITIZER_CALLS = {
    Instrumentation.GSAN: (".ptx", "__triton_gsan_"),
    Instrumentation.CONSAN: (".ptx", "__triton_consan_"),
    Instrumentation.FPSAN: (".ttgir", "tti.experimental_fpsan_"),
}
"""The file of a build, and the text in it, that prove that the kernel calls the sanitizer."""
FLOAT_OPERATIONS = re.compile(r"\barith\.\w+f\b|\bmath\.|\btt\.dot\b")
"""In TTIR: the operations that FpSan replaces."""
ASSERTION = re.compile(r'\btt\.assert [^"\n]*"((?:[^"\\]|\\.)*)"')
"""In TTIR: a kernel's own assertion and its text."""
ESCAPED = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))")


def enable_instrumentation(gpu: RealGpu, environment: Mapping[str, str]) -> Instrumenting | None:
    """Compile every kernel of this process with the sanitizer that the environment names; return that, if any."""
    instrumentation = instrumentation_from(environment)
    if instrumentation is not None:
        instrument(instrumentation.mode)
        if instrumentation.mode is Instrumentation.GSAN:
            # GSan keeps one clock per SM, so no second program may fit there.  It takes the size to reserve from
            # Triton's driver, which reports the emulated device's size.
            reserve_shared_memory(gpu.shared_bytes_per_block)
    return instrumentation


class InstrumentedBuilds:
    """Inspects the builds of the kernels that are loaded onto the GPU."""

    def __init__(self, instrumentation: Instrumenting) -> None:
        self._instrumentation = instrumentation
        self._uninstrumented: set[str] = set()
        """Kernels compiled without the sanitizer although they have something to check."""
        self._asserts: dict[str, set[str]] = {}
        self._inexact: set[str] = set()
        """Kernels that FpSan does not compute exactly."""
        on_load(self._on_load)

    def report(self, kernels: Iterable[str], unchecked: str) -> Instrumented:
        """Return the facts of a case that launched these kernels; `unchecked` is why an access was not checked."""
        launched = tuple(kernels)
        names = dict.fromkeys(launched)
        uninstrumented = ", ".join(name for name in names if name in self._uninstrumented)
        return Instrumented(
            mode=self._instrumentation.mode,
            version=self._instrumentation.version,
            launches=len(launched),
            asserts=tuple(sorted({text for name in names for text in self._asserts.get(name, ())})),
            unproven=f"{uninstrumented} was compiled without {self._instrumentation.mode}"
            if uninstrumented
            else unchecked,
        )

    def incomparable(self, kernels: Iterable[str]) -> str:
        """Return why FpSan's results may differ between correct kernels; empty if they may not."""
        inexact = ", ".join(name for name in dict.fromkeys(kernels) if name in self._inexact)
        return (
            f"{inexact} takes a maximum, meets an infinity or adds by atomics, which FpSan does not do exactly"
            if inexact
            else ""
        )

    def _on_load(self, module: Any, function: int, name: str, metadata_group: Mapping[str, str], digest: str) -> None:
        del module, function, digest
        files = {Path(file).suffix: Path(path) for file, path in metadata_group.items()}
        suffix, call = SANITIZER_CALLS[self._instrumentation.mode]
        if call not in _text(files, suffix) and self._needs_call(files):
            self._uninstrumented.add(name)
        ttir = _text(files, ".ttir")
        self._asserts.setdefault(name, set()).update(assertion_texts(ttir))
        if INEXACT.search(ttir):
            self._inexact.add(name)

    def _needs_call(self, files: Mapping[str, Path]) -> bool:
        """Return True if a kernel has anything for the sanitizer to check."""
        match self._instrumentation.mode:
            case Instrumentation.GSAN:
                return True
            case Instrumentation.CONSAN:
                metadata = json.loads(_text(files, ".json") or "{}")
                return bool(metadata.get("shared") or metadata.get("tmem_size") or not metadata)
            case Instrumentation.FPSAN:
                return FLOAT_OPERATIONS.search(_text(files, ".ttir")) is not None


def obstacle(instrumentation: Instrumenting) -> str:
    """Return why instrumented kernels cannot run in children of this process, which has no CUDA; empty if they can."""
    if instrumentation.mode is not Instrumentation.GSAN:
        return ""
    try:
        gsan().get_allocator()
    except Exception as error:  # noqa: BLE001 - whatever the C++ compiler or linker fails with
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return f"GSan's allocator cannot be built, which takes a C++ compiler ({reason})"
    return ""


def assertion_texts(ttir: str) -> set[str]:
    """Return the texts of a kernel's own assertions, as the driver prints them."""
    return set(map(_unescape, ASSERTION.findall(ttir)))


def memory_pool(*, write_once: bool) -> Any:
    """Return a pool of memory that GSan watches.

    With `write_once` it reports cells that are written twice, or read before they are written.
    """
    return gsan().create_mem_pool(write_once=write_once)


def _unescape(text: str) -> str:
    """Decode a string of TTIR, which escapes bytes of UTF-8 as two hexadecimal digits."""
    plain = ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()) if match[1] else match[2], text.encode())
    return plain.decode(errors="replace")


def _text(files: Mapping[str, Path], suffix: str) -> str:
    return files[suffix].read_text(encoding="utf-8") if suffix in files else ""
