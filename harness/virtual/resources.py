"""What a kernel takes on its GPU: the whole compiler pipeline, run beside the search on TTIR that it left behind.

`python -m harness.virtual.resources` is the compiler's process: it reads builds from its standard input, a line of JSON
each, and answers each with a line of JSON, its resources.  It runs at the lowest priority: the search goes first.
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
from typing import Any

import triton

from harness.model.resources import Resources
from harness.virtual.triton_seam import compile_whole

_USAGE = re.compile(r"REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")


def compile_resources(ttir: str, arch: int, options: Mapping[str, Any]) -> Resources:
    """The resources of one TTIR text; what the compiler refuses is in `failure`."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        built = compile_whole(ttir, arch, given)
    except Exception as error:  # noqa: BLE001 - whatever the compiler says is a fact about the kernel
        said = (str(error).strip().splitlines() or [""])[0]
        return Resources.failed(f"{type(error).__name__}: {said}")
    registers, local_bytes = _usage(built.cubin)
    metadata = built.metadata
    return Resources(
        registers_per_thread=registers,
        spill_bytes=local_bytes,
        shared_bytes=int(metadata["shared"]),
        tensor_memory_columns=int(metadata.get("tmem_size") or 0),
        scratch_bytes_per_program=int(metadata.get("global_scratch_size") or 0),
        threads=32 * int(metadata["num_warps"]),
    )


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and local memory a thread, as the cuobjdump of Triton's own wheel reads them off a cubin."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=False)
    found = _USAGE.search(told.stdout)
    if not found:
        return 0, 0
    registers, stack, _, local = (int(part) for part in found.groups())
    return registers, stack + local


def main() -> None:
    """Serve build files until standard input ends."""
    os.nice(19)
    for line in sys.stdin:
        build = json.loads(line)
        resources = compile_resources(build["ttir"], build["arch"], build["options"])
        print(json.dumps(asdict(resources)), flush=True)  # noqa: T201 - the process's product


if __name__ == "__main__":
    main()
