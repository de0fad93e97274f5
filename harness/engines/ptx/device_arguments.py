"""The arguments of a launch as a GPU gets them: device addresses, numbers and tensor maps, in the kernel's order."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.engines.ptx.memories import GlobalMemory, MemoryRegion
from harness.engines.ptx.ptx_builds import PtxBuild
from harness.engines.ptx.tensor_maps import ELEMENT_KINDS, NIBBLES_PER_BYTE, SWIZZLE_BYTES, TensorMap, encode
from harness.engines.ptx.whole_words import WholeWords
from harness.engines.ttir.ir import Function, Type
from harness.engines.virtual.binding import Binding
from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.pointers import Descriptor, Pointers
from harness.engines.virtual.numbers.elements import encode as encode_elements
from harness.errors import CannotExecute

SCRATCH_BYTE = 0xFF


class DeviceArguments:
    """The buffers of a launch as regions of global memory, and its parameters."""

    def __init__(
        self,
        binding: Binding,
        kernel: Function,
        build: PtxBuild,
        programs: int,
        content_of: Callable[[Buffer], WholeWords],
    ) -> None:
        """Place all buffers.

        Args:
            binding: the arguments, bound to the TTIR kernel's parameters.
            kernel: the TTIR kernel.
            build: the PTX.
            programs: the programs of the grid.
            content_of: returns the bytes that stand for a buffer.
        """
        self._binding, self._build = binding, build
        self.memory = GlobalMemory()
        self._regions: dict[int, MemoryRegion] = {}
        self.buffers: dict[int, Buffer] = {}
        """By the number of a region."""
        for number, buffer in enumerate(binding.buffers):
            self.buffers[number] = buffer
            words = content_of(buffer)
            self._regions[id(buffer)] = self.memory.add("", words.content, number, filler_bytes=words.filler_bytes)
        self.values = self._values(kernel, programs)
        """The parameters of the PTX kernel, for `pack_parameters`."""

    def _values(self, kernel: Function, programs: int) -> list[Any]:
        values: list[Any] = []
        maps = iter(self._build.tensor_maps)
        for value, parameter in zip(self._binding.values, kernel.parameters, strict=True):
            if isinstance(value, Pointers):
                values.append(self._address(value))
            elif isinstance(value, Descriptor):
                values.append(self._tensor_map(value, parameter.type, next(maps, None)))
            elif isinstance(value, np.ndarray):
                raw = encode_elements(value.reshape(-1)[:1], parameter.type.element)
                values.append(np.ascontiguousarray(raw).tobytes())
            else:
                raise CannotExecute(f"an argument of type {parameter.type}")
        scratch = self._build.scratch_bytes * programs * self._build.num_ctas
        content = np.full(max(scratch, 0), SCRATCH_BYTE, np.uint8)
        values.append(self.memory.add("scratch memory", content).address if scratch else 0)
        return values

    def _address(self, pointer: Pointers) -> int:
        argument = self._binding.arguments[pointer.argument]
        if argument.buffer is None:
            return 0
        offset = argument.first_byte + int(pointer.index().flat[0]) * pointer.element_bytes
        return self._regions[id(argument.buffer)].address + offset

    def _tensor_map(self, descriptor: Descriptor, kind: Type, facts: Mapping[str, Any] | None) -> bytes:
        if facts is None or not isinstance(descriptor.base, Pointers):
            raise CannotExecute("a tensor descriptor whose map Triton does not describe")
        size = int(facts["elem_size"])
        extents = [int(part.flat[0]) for part in descriptor.extents][::-1]
        strides = [int(part.flat[0]) * size for part in descriptor.strides][::-1]
        is_padded = bool(facts.get("fp4_padded"))
        inner, *outer = [int(extent) for extent in facts["block_size"]][::-1]
        tensor = TensorMap(
            address=self._address(descriptor.base),
            element_bytes=size,
            kind=kind.element if kind.element in ELEMENT_KINDS.values() else "",
            extents=tuple(extents),
            strides=tuple(strides),
            box=(inner // NIBBLES_PER_BYTE if is_padded else inner, *outer),
            swizzle=SWIZZLE_BYTES[int(facts["swizzle"])],
            fills_with_nan=bool(descriptor.pads_with_nan.flat[0]),
            is_padded=is_padded,
        )
        return encode(tensor)
