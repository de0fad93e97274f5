"""The names of external functions: those of NVIDIA's libdevice, and of AMD's device libraries by libdevice's names.

AMD's symbols are in OCML and OCKL (ROCm device libraries); Triton's AMD backend adds some of its own.  OCML names the
type of a function at its end: `__ocml_exp_f32` is libdevice's `expf`.
"""

import re

NVIDIA = "__nv_"
_OCML = re.compile(r"__ocml_(\w+)_f(32|64)")
_RENAMED = {
    "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1",
    "isfinite": "finite",
    "isinf": "isinf",
    "isnan": "isnan",
    "pown": "powi",
}
"""Functions of OCML that libdevice names otherwise."""
_OTHERS = {
    "__ockl_clz_u32": "clz",
    "__ockl_clz_u64": "clzll",
    "__ockl_popcount_u32": "popc",
    "__ockl_popcount_u64": "popcll",
    "__triton_hip_fabs": "fabs",
    "__triton_hip_fast_expf": "fast_expf",
    "__triton_hip_fast_fdividef": "fast_fdividef",
    "__triton_hip_fast_tanhf": "tanhf",
    "__triton_hip_iabs": "abs",
    "__triton_hip_llrint": "llrint",
    "__triton_hip_rint": "rint",
}


def libdevice_name(symbol: str) -> str:
    """Return the name without prefix of the function of libdevice that a symbol means; the symbol if there is none."""
    if symbol in _OTHERS:
        return _OTHERS[symbol]
    if ocml := _OCML.fullmatch(symbol):
        name = _RENAMED.get(ocml[1], ocml[1])
        return f"{name}f" if ocml[2] == "32" and ocml[1] not in _RENAMED else name
    return symbol.removeprefix(NVIDIA)
