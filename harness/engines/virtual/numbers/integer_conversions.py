"""The integers to which GPUs convert floats: an 8-bit or 16-bit result is the lower part of a wider one.

Only numbers out of the result's range show the difference.  Of an AMD GPU these are the instructions that Triton 3.6.0
emits for gfx942 and gfx1201, such as `v_cvt_i32_f32` for unsigned integers of 8 bits: a negative number wraps.  TTIR
widens float16 first; that LLVM may convert it as it is, to 16 bits, shows beyond their range alone.
"""

from dataclasses import dataclass

from harness.model.device import Vendor


@dataclass(frozen=True, slots=True)
class ConvertedType:
    """The type to which an instruction converts, and at whose limits it saturates."""

    bits: int
    signed: bool


def converted_type(vendor: Vendor, bits: int, *, signed: bool) -> ConvertedType:
    """Return the type of the instruction that converts floats to integers of so many bits."""
    if vendor is Vendor.NVIDIA:
        return ConvertedType(max(16, bits), signed)
    return ConvertedType(max(32, bits), signed or bits == 8)
