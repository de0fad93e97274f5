"""The names and layouts of jaxlib that the seam relies on, and the engines that do not run JAX."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import triton

from harness import catalogue
from harness.engines.jax import gpu_triton, xla_ffi
from harness.engines.jax.jax_releases import missing_release
from harness.engines.triton.driver import LaunchRequest, VirtualDriver
from harness.errors import CannotExecute, SuiteError
from harness.suite import jax_call

NAMES = {
    "PRED": torch.bool,
    **{f"S{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": getattr(torch, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": getattr(torch, f"float{bits}") for bits in (16, 32, 64)},
    "BF16": torch.bfloat16,
    "F8E5M2": torch.float8_e5m2,
    "F8E4M3FN": torch.float8_e4m3fn,
}
"""The names of XLA's element types in its header."""


def launch_nothing(request: LaunchRequest) -> None:
    raise AssertionError(request)


@pytest.fixture
def no_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver whose engine runs no models of other runtimes."""
    monkeypatch.setattr(triton.runtime.driver, "_active", VirtualDriver(catalogue.find("b200"), launch_nothing))


@pytest.mark.skipif(bool(missing_release()), reason=missing_release() or "JAX is installed")
def test_the_codes_of_types_and_the_version_are_those_of_the_header() -> None:
    spec = find_spec("jaxlib")
    assert spec is not None
    assert spec.origin is not None
    header = Path(spec.origin).with_name("include") / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text(encoding="utf-8")
    codes = {name: int(code) for name, code in re.findall(r"XLA_FFI_DataType_(\w+) = (\d+)", text)}
    version = tuple(int(one) for one in re.findall(r"#define XLA_FFI_API_(?:MAJOR|MINOR) (\d+)", text))
    assert {codes[name]: dtype for name, dtype in NAMES.items()} == dict(xla_ffi.DTYPES)
    assert version == xla_ffi.API_VERSION


@pytest.mark.usefixtures("no_runtimes")
def test_an_engine_without_models_is_named() -> None:
    with pytest.raises(CannotExecute) as raised:
        jax_call(lambda x: x, torch.ones(3))
    assert raised.value.what == "a JAX call on another engine than the virtual GPU"


@pytest.mark.parametrize(("slug", "backend"), [("mi300x", "hip"), ("pvc", "xpu")])
def test_kernels_of_jax_on_a_gpu_of_another_vendor_are_unsupported_by_name(
    monkeypatch: pytest.MonkeyPatch, slug: str, backend: str
) -> None:
    monkeypatch.setattr(triton.runtime.driver, "_active", VirtualDriver(catalogue.find(slug), launch_nothing))
    with pytest.raises(CannotExecute, match=f"a kernel that JAX calls on a GPU of the backend {backend}"):
        gpu_triton.get_compute_capability(0)


def test_an_unknown_setting_is_named_with_those_that_exist() -> None:
    with pytest.raises(SuiteError) as raised:
        jax_call(lambda x: x, torch.ones(3), tuned_while="running")
    assert str(raised.value) == (
        "jax_call has an unknown setting: 'running' is not a valid TunedWhile; "
        "known: execution, initialisation, buffers, outputs, none"
    )
