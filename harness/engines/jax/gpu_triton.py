"""Takes the place of `jaxlib.gpu_triton`, which is empty without a GPU: the names that jax-triton uses.

jax-triton describes a kernel call with these classes, serialises it, and jaxlib's call target reads it on the GPU.
Here a call stays a Python object.  `harness.engines.jax.call_targets` makes its launches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from harness.engines.jax.jax_kernels import JaxKernelBuild
from harness.engines.triton.triton_seam import active_driver
from harness.errors import CannotExecute
from harness.model.device import Vendor


@dataclass(frozen=True, slots=True)
class ArrayParameter:
    """An array of a kernel call; its first bytes may have to be zeroed before each launch."""

    bytes_to_zero: int
    divisibility: int


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """A number of a kernel call."""

    value: Any
    dtype: str


Parameter = ArrayParameter | ScalarParameter


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A compiled kernel."""

    name: str
    num_warps: int
    num_ctas: int
    shared_bytes: int
    build: JaxKernelBuild
    """In the place of PTX."""
    ttir: str
    compute_capability: int


@dataclass(frozen=True, slots=True)
class TritonKernelCall:
    """A kernel with its grid and parameters."""

    kernel: TritonKernel
    grid_x: int
    grid_y: int
    grid_z: int
    parameters: Sequence[Parameter]

    def to_proto(self, name: str, metadata: bytes) -> "SerializedCall":
        return SerializedCall(self, name, metadata)


@dataclass(frozen=True, slots=True)
class TritonAutotunedKernelCall:
    """The calls of an autotuned kernel, one for each config, and the buffers that tuning must restore."""

    name: str
    calls: Sequence[tuple[TritonKernelCall, str]]
    """Each with its config as Triton prints it."""
    aliases: Sequence[tuple[int, int, int]]
    """Input and output by index, as the library passes them, and the size in bytes."""

    def to_proto(self, name: str, metadata: bytes) -> "SerializedCall":
        return SerializedCall(self, name, metadata)


AnyKernelCall = TritonKernelCall | TritonAutotunedKernelCall


class SerializedCall(bytes):
    """Takes the place of the serialised call: bytes that carry the call itself."""

    call: AnyKernelCall

    def __new__(cls, call: AnyKernelCall, name: str, metadata: bytes) -> Self:
        serialized = super().__new__(cls, name.encode() + metadata)
        serialized.call = call
        return serialized


def create_array_parameter(bytes_to_zero: int, divisibility: int) -> ArrayParameter:
    return ArrayParameter(bytes_to_zero, divisibility)


def create_scalar_parameter(value: Any, dtype: str) -> ScalarParameter:
    return ScalarParameter(value, dtype)


def get_compute_capability(device: int) -> int:
    """Return that of the emulated device.

    Raises:
        CannotExecute: it is no NVIDIA GPU, whose call targets alone have a model.
    """
    del device
    target = active_driver().get_current_target()
    if target.backend != Vendor.NVIDIA:
        raise CannotExecute(f"a kernel that JAX calls on a GPU of the backend {target.backend}")
    return int(target.arch)


def get_arch_details(device: int) -> str:
    """Stand in for a question about AMD's GPUs, which jax-triton asks of its ROCm build alone."""
    raise NotImplementedError(f"device {device} is no AMD GPU")


def get_serialized_metadata(opaque: bytes) -> bytes:
    """Return the metadata of a serialised call."""
    raise NotImplementedError(f"the metadata of a call of {len(opaque)} bytes")
