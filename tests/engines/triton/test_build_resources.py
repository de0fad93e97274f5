"""A compilation that fails is attributed to the kernel or to the machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import pytest

from harness import wire
from harness.engines.triton.build_resources import compile_resources
from harness.model.kernel_resources import Resources
from tests.engines.triton.ttir_texts import REFUSED_BY_AMD, REFUSED_BY_MLIR, REFUSED_BY_PTXAS, STORE

NOWHERE = "/proc/nowhere"
"""A path at which even root cannot make a folder."""
MakePtxas = Callable[[str], None]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty cache, so that every kernel is compiled."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def make_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePtxas:
    """Installs a fake ptxas that prints its version, and otherwise runs one line of shell."""

    def make(end: str) -> None:
        file = tmp_path / "ptxas"
        version = "Cuda compilation tools, release 12.8, V12.8.93"
        file.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit\n{end}\n', encoding="utf-8")
        file.chmod(0o755)
        for variable in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
            monkeypatch.setenv(variable, str(file))

    return make


def resources_of(ttir: str, arch: int = 90) -> Resources:
    return compile_resources(ttir, arch, {"num_warps": 4})


def test_a_kernel_that_compiles_has_resources() -> None:
    resources = resources_of(STORE)
    assert (resources.threads, resources.failure, resources.unknown) == (128, "", "")


@pytest.mark.parametrize(
    ("ttir", "arch", "message"),
    [
        (REFUSED_BY_PTXAS, 90, "PTXASError: PTXAS error: Internal Triton PTX codegen error"),
        (REFUSED_BY_MLIR, 80, "RuntimeError: PassManager::run failed"),
        ("module { this is no TTIR }", 90, "RuntimeError: Parse MLIR file failed."),
    ],
    ids=["by ptxas", "by a pass of MLIR", "by its parser"],
)
def test_a_refusal_of_the_compiler_is_a_failure_of_the_kernel(ttir: str, arch: int, message: str) -> None:
    assert resources_of(ttir, arch) == Resources.failed(message)


def test_a_function_of_cuda_is_refused_for_a_gpu_of_amd() -> None:
    on_amd = compile_resources(REFUSED_BY_AMD, "gfx942", {"num_warps": 4})
    assert on_amd.failure.startswith("RuntimeError: Implicit conversion of CUDA __nv_roundf device function")
    assert resources_of(REFUSED_BY_AMD).failure == ""


def test_a_missing_cache_folder_is_no_failure_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", NOWHERE)
    message = f"FileNotFoundError: [Errno 2] No such file or directory: '{NOWHERE}'"
    assert resources_of(STORE) == Resources.not_known(message)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=attrgetter("name"))
def test_a_killed_ptxas_is_no_failure_of_the_kernel(make_ptxas: MakePtxas, end: signal.Signals) -> None:
    make_ptxas(f"kill -{end.value} $$")
    resources = resources_of(STORE)
    assert resources.failure == ""
    assert resources.unknown.startswith("PTXASError: ")


def test_a_crash_of_ptxas_is_a_failure_of_the_kernel(make_ptxas: MakePtxas) -> None:
    make_ptxas(f"kill -{signal.SIGSEGV.value} $$")
    assert resources_of(STORE).failure.startswith("PTXASError: ")


def test_an_unreadable_cubin_is_no_failure_of_the_kernel(make_ptxas: MakePtxas) -> None:
    make_ptxas('for last; do :; done; echo "no cubin" > "$last"')
    resources = resources_of(STORE)
    assert resources.failure == ""
    assert "cuobjdump" in resources.unknown


def test_output_of_triton_does_not_mix_with_the_answers(tmp_path: Path) -> None:
    build = json.dumps({"arch": 90, "options": {"num_warps": 4}, "ttir": REFUSED_BY_PTXAS})
    done = subprocess.run(
        [sys.executable, "-m", "harness.compiling.compiler_process"],
        input=f"{build}\n{build}\n",
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TRITON_CACHE_DIR": str(tmp_path / "cache")},
    )
    answers = [wire.from_json(line, Resources) for line in done.stdout.splitlines()]
    assert [answer.failure.partition(":")[0] for answer in answers] == ["PTXASError", "PTXASError"]
    assert "please share the reproducer above with Triton project" in done.stderr
