"""A compiler's process: `python -m harness.compiling.compiler_process` compiles one build after another.

Builds come on standard input and answers leave on standard output, one line of JSON each.  Standard error gets what
else is printed.

* For a search, builds have their TTIR with them, and the answers are `Resources`.  It runs at the lowest priority, so
  the search goes first.
* For a matrix, whose cache is the only argument, requests name their TTIR in the cache, and the answers are
  `BuildFacts`.  The message of a failed build is read from standard error, which is a file: MLIR prints its reasons.
"""

import hashlib
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from harness import wire
from harness.compiling.build_cache import BuildCache
from harness.compiling.compiler_child import cpu_seconds
from harness.engines.triton.build_resources import compile_resources, is_refusal
from harness.engines.triton.machine_code import (
    amd_facts,
    amd_instructions,
    cubin_instructions,
    ptxas_facts,
    ptxas_refusal,
)
from harness.engines.triton.stage_process import reserve_output
from harness.engines.triton.triton_stages import StagedBuild, compile_stages
from harness.engines.ttir.own_names import renamed_assembly
from harness.errors import CannotExecute
from harness.model.device import Vendor
from harness.model.kernel_build import BuildFacts, BuildRequest
from harness.model.kernel_resources import Resources
from harness.model.run import Source

MEMORY_LIMIT_BYTES = 16 * 1024**3
"""Address space of a compiler and of its assembler."""
LONGEST_MESSAGE = 400
_DIAGNOSTIC = re.compile(r'^(?:loc\()?"?([^":\n]+)"?:(\d+):\d+\)?: error: (?!Failures have been)(.*)$', re.MULTILINE)
"""An error of MLIR, except the one that says that there was one."""
_LLVM_ERROR = re.compile(r"^error: .*$", re.MULTILINE)
_FATAL = re.compile(r"^LLVM ERROR: (.*)$", re.MULTILINE)
_FAILED_PASS = re.compile(r"note: (Pipeline failed while executing \[`\w+`)")


def main(cache: str | None = None) -> None:
    """Compile until standard input ends."""
    answers = reserve_output()
    with tempfile.TemporaryDirectory(prefix="kernel-harness-") as scratch:
        tempfile.tempdir = scratch  # Triton leaves the PTX there that ptxas refuses
        answer = _answer_search() if cache is None else _answer_matrix(BuildCache(Path(cache)), Path(scratch))
        for line in sys.stdin:
            with suppress(OSError):  # it is a pipe
                os.ftruncate(2, 0)
                os.lseek(2, 0, os.SEEK_SET)
            print(wire.to_json(answer(line)), file=answers, flush=True)


def _answer_search() -> Callable[[str], Resources]:
    os.nice(19)
    printed = os.fdopen(os.dup(2), "r", encoding="utf-8", errors="replace")

    def answer(line: str) -> Resources:
        build = json.loads(line)
        resources = compile_resources(build["ttir"], build["arch"], build["options"])
        error = _printed_error(printed)
        return Resources.failed(error) if error and not (resources.failure or resources.unknown) else resources

    return answer


def _printed_error(printed: TextIO) -> str:
    """Return an error that LLVM printed and did not report; empty if there is none.

    The LLVM of Triton 3.9 prints one for inline assembly of another vendor, and makes code without the instruction.
    """
    error = _LLVM_ERROR.search(_text_of(printed))
    return error[0][:LONGEST_MESSAGE] if error else ""


def _text_of(printed: TextIO) -> str:
    """Return what was printed for one build; nothing if that goes to a pipe."""
    with suppress(OSError):
        printed.seek(0)
        return printed.read()
    return ""


def _answer_matrix(cache: BuildCache, scratch: Path) -> Callable[[str], BuildFacts]:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    printed = os.fdopen(os.dup(2), "r", encoding="utf-8", errors="replace")
    file = scratch / "kernel.ttir"

    def answer(line: str) -> BuildFacts:
        request = wire.from_json(line, BuildRequest)
        file.write_text(cache.ttir(request.ttir), encoding="utf-8")
        return compile_build(request, file, printed)

    return answer


def compile_build(request: BuildRequest, ttir: Path, printed: TextIO) -> BuildFacts:
    """Compile one file of TTIR and return its facts; `printed` is the file that holds what the compiler prints."""
    began = cpu_seconds()
    options = {name: value for name, value in request.options.items() if value is not None}
    try:
        facts = _facts_of(request, compile_stages(ttir, request.target, options))
        if error := _printed_error(printed):
            facts = BuildFacts(failure=error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a fact about the kernel or about the machine
        facts = _failed(error, printed)
    return replace(facts, cpu_seconds=round(cpu_seconds() - began, 4))


def _facts_of(request: BuildRequest, staged: StagedBuild) -> BuildFacts:
    metadata = staged.metadata
    if request.target.vendor is Vendor.NVIDIA:
        used, instructions = ptxas_facts(staged.log), cubin_instructions(staged.binary)
    else:
        assembly = staged.binary.decode()
        used, instructions = amd_facts(assembly), amd_instructions(assembly)
    return BuildFacts(
        shared_bytes=int(metadata["shared"]),
        tensor_memory_columns=int(metadata.get("tmem_size") or 0),
        registers_per_thread=used.registers,
        scalar_registers=used.scalar_registers,
        local_bytes_per_thread=used.local_bytes,
        spill_store_bytes=used.spill_store_bytes,
        spill_load_bytes=used.spill_load_bytes,
        num_warps=int(metadata["num_warps"]),
        num_ctas=int(metadata.get("num_ctas") or 1),
        warp_size=request.target.warp_size,
        scratch_bytes_per_program=int(metadata.get("global_scratch_size") or 0),
        scratch_align=int(metadata.get("global_scratch_align") or 1),
        profile_scratch_bytes_per_program=int(metadata.get("profile_scratch_size") or 0),
        profile_scratch_align=int(metadata.get("profile_scratch_align") or 1),
        instructions=instructions,
        cubin=hashlib.sha256(staged.binary).hexdigest()[:16],
        assembly=hashlib.sha256(renamed_assembly(staged.assembly).encode()).hexdigest()[:16],
        warnings=used.warnings,
    )


def _failed(error: Exception, printed: TextIO) -> BuildFacts:
    """Return the facts of a build that raised: the compiler's own reason, and the line of source that it names."""
    text = f"{_text_of(printed)}\n{error}"
    diagnostic = _DIAGNOSTIC.search(text)
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    source = None
    if diagnostic:
        reason, source = diagnostic[3], Source(file=diagnostic[1], line=int(diagnostic[2]))
    elif refused := ptxas_refusal(str(error)):
        reason, source = f"ptxas: {refused.message}", refused.source
    elif fatal := _FATAL.search(text):
        reason = fatal[1]
    elif failed := _FAILED_PASS.search(text):
        reason = f"{failed[1]}]"
    if source is not None and not source.file.endswith(".py"):  # the TTIR itself
        source = None
    message = f"{type(error).__name__}: {reason}"[:LONGEST_MESSAGE]
    if isinstance(error, (MemoryError, OSError, CannotExecute)) or not (is_refusal(error) or diagnostic):
        return BuildFacts(unknown=message, failure_source=source)
    return BuildFacts(failure=message, failure_source=source)


if __name__ == "__main__":
    main(*sys.argv[1:])
