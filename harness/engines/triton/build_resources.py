"""The resources of a kernel: the whole compiler pipeline on its TTIR, here or in a process that compiles for others."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import triton

from harness.catalogue import no_backend
from harness.engines.triton.later_stages import REFUSALS, CompiledBinary, compile_to_binary, target
from harness.engines.triton.machine_code import amd_facts
from harness.model.device import Arch, Vendor, vendor_of
from harness.model.kernel_resources import CRASHES, Resources
from harness.model.triton_errors import MLIR_REFUSALS

LIMIT_S = 60.0
_USAGE = re.compile(r"REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")


class _State:
    elsewhere: Callable[[str, Arch, Mapping[str, Any]], Resources] | None = None
    """Compiles in another process, for one that may start none; None to compile here."""


state = _State()


def compile_resources(ttir: str, arch: Arch, options: Mapping[str, Any]) -> Resources:
    """Compile one TTIR text and return its resources.

    `Resources.failure` holds a refusal of the compiler, `Resources.unknown` a failure of this machine.
    """
    if vendor_of(arch) is Vendor.INTEL:
        return Resources.not_known(no_backend(triton.__version__))
    if state.elsewhere is not None:
        return state.elsewhere(ttir, arch, options)
    set_options = {name: value for name, value in options.items() if value is not None}
    try:
        built = compile_to_binary(ttir, arch, set_options)
        registers, local_bytes = _usage(built, vendor_of(arch))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a fact about the kernel or about the machine
        message = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        return Resources.failed(message) if is_refusal(error) else Resources.not_known(message)
    metadata = built.metadata
    return Resources(
        registers_per_thread=registers,
        spill_bytes=local_bytes,
        shared_bytes=int(metadata["shared"]),
        tensor_memory_columns=int(metadata.get("tmem_size") or 0),
        scratch_bytes_per_program=int(metadata.get("global_scratch_size") or 0),
        threads=target(arch).warp_size * int(metadata["num_warps"]),
        scratch_align=int(metadata.get("global_scratch_align") or 1),
    )


def is_refusal(error: Exception) -> bool:
    """Return True if the compiler refuses the kernel; False for a full disk or a killed ptxas."""
    if isinstance(error, RuntimeError):
        return str(error).startswith(MLIR_REFUSALS)
    # A negative status is a signal: only a crash of ptxas is its own, not for example SIGKILL.
    ptxas = error.__context__
    if isinstance(ptxas, subprocess.CalledProcessError) and ptxas.returncode < 0 and -ptxas.returncode not in CRASHES:
        return False
    return isinstance(error, REFUSALS)


def _usage(built: CompiledBinary, vendor: Vendor) -> tuple[int, int]:
    """Return registers and bytes of local memory per thread: what the compiler writes into AMD's assembly.

    Of a cubin, the cuobjdump of Triton's wheel reads them.

    Raises:
        ValueError: the tool reports no usage, or does not end.
    """
    if vendor is Vendor.AMD:
        facts = amd_facts(built.assembly)
        return facts.registers, facts.local_bytes
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(built.binary)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        try:
            dump = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise ValueError(f"cuobjdump did not end within {LIMIT_S:g} s") from None
    usage = _USAGE.search(dump.stdout)
    if not usage:
        raise ValueError(f"cuobjdump reports no usage of the cubin: {(dump.stderr or dump.stdout).strip()}")
    registers, stack, _, local = (int(part) for part in usage.groups())
    return registers, stack + local
