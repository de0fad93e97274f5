"""What a kernel takes on its GPU: the whole compiler pipeline, run beside the search on TTIR that it left behind.

`python -m harness.virtual.driver.compiler_process` reads builds from standard input, a line of JSON each, and answers
each with its resources, a line of JSON.  It runs at the lowest priority: the search goes first.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import triton

from harness.model.ending import REFUSED_BUILDS
from harness.model.kernel_resources import CRASHES, Resources
from harness.virtual.driver.triton_seam import compile_whole

_USAGE = re.compile(r"REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")
_REFUSALS = ("PassManager::run failed", "Parse MLIR file failed", "failed to translate module to LLVM IR")
"""How the messages of MLIR begin, which come as RuntimeErrors (Triton 3.6 to 3.9)."""


def compile_resources(ttir: str, arch: int, options: Mapping[str, Any]) -> Resources:
    """The resources of one TTIR text: in `failure` what the compiler refuses, in `unknown` what befell it here."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        built = compile_whole(ttir, arch, given)
        registers, local_bytes = _usage(built.cubin)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a fact about the kernel or about the machine
        said = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        return Resources.failed(said) if _is_refusal(error) else Resources.not_known(said)
    metadata = built.metadata
    return Resources(
        registers_per_thread=registers,
        spill_bytes=local_bytes,
        shared_bytes=int(metadata["shared"]),
        tensor_memory_columns=int(metadata.get("tmem_size") or 0),
        scratch_bytes_per_program=int(metadata.get("global_scratch_size") or 0),
        threads=32 * int(metadata["num_warps"]),
    )


def _is_refusal(error: Exception) -> bool:
    """Whether it is the compiler's own word on the kernel, and not a full disk or a ptxas that somebody killed."""
    if isinstance(error, RuntimeError):
        return str(error).startswith(_REFUSALS)
    ptxas = error.__context__
    if isinstance(ptxas, subprocess.CalledProcessError) and ptxas.returncode < 0 and -ptxas.returncode not in CRASHES:
        return False
    return type(error).__name__ in REFUSED_BUILDS


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and local memory a thread, as the cuobjdump of Triton's own wheel reads them off a cubin.

    Raises:
        ValueError: it does not say.
    """
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=False)
    found = _USAGE.search(told.stdout)
    if not found:
        raise ValueError(f"cuobjdump tells nothing of the cubin: {(told.stderr or told.stdout).strip()}")
    registers, stack, _, local = (int(part) for part in found.groups())
    return registers, stack + local


def main() -> None:
    """Serve build files until standard input ends."""
    answers = _keep_output()
    os.nice(19)
    for line in sys.stdin:
        build = json.loads(line)
        resources = compile_resources(build["ttir"], build["arch"], build["options"])
        print(json.dumps(asdict(resources)), file=answers, flush=True)


def _keep_output() -> TextIO:
    """Standard output, for answers alone: whatever else is printed from now on goes where errors go.

    Before it raises a PTXASError, Triton prints the kernel (3.6 to 3.9).
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
