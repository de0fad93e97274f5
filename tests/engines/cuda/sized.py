"""A suite of autotuned matrix products whose configs may exceed the 99 KiB of shared memory of the emulated GPU.

One of two configs of `second_fits` fits there, and none of `none_fits`.  The only config of `fits_there` fits as
compiled for that GPU, and needs more on a Hopper.  `has_rows` is the same op with independent rows.
"""

from typing import Any

from harness.suite import Dim, DType, op, tensor, tokens

DIMS = {"T": tokens(128), "D": Dim(low=16, high=16)}
XW = {"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)}


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def second_fits(x: Any, w: Any) -> Any:
    from tests.engines.cuda import sized_kernels

    return sized_kernels.product(x, w, sized_kernels.second_fits)


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def none_fits(x: Any, w: Any) -> Any:
    from tests.engines.cuda import sized_kernels

    return sized_kernels.product(x, w, sized_kernels.none_fits)


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,))
def fits_there(x: Any, w: Any) -> Any:
    from tests.engines.cuda import sized_kernels

    return sized_kernels.product(x, w, sized_kernels.fits_there)


@op(dims=DIMS, inputs=XW, dtypes=(DType.FP16,), independent=("T",))
def has_rows(x: Any, w: Any) -> Any:
    from tests.engines.cuda import sized_kernels

    return sized_kernels.product(x, w, sized_kernels.fits_there)


@has_rows.reference
@fits_there.reference
@second_fits.reference
@none_fits.reference
def product(x: Any, w: Any) -> Any:
    return x @ w
