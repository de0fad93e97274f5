"""A JAX that is missing or of an unknown release: one line with the releases that work, and the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import libraries
from harness.engines.jax.jax_releases import missing_release
from harness.extras import PINNED
from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SUITE = Path(__file__).with_name("jax_suite.py")
WORKS = "JAX on the virtual GPU works with jax 0.10.2 and jaxlib 0.10.2 and jax-triton 0.3.1"
COMMAND = "pip install 'kernel-harness[jax]'"


def releases(folder: Path, **changed: str) -> Path:
    """Write the metadata of releases, as an installer leaves it, to a folder."""
    for name, release in (
        {name.replace("-", "_"): release for name, release in PINNED["jax"].items()} | changed
    ).items():
        metadata = folder / f"{name}-{release}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n", encoding="utf-8")
    return folder


def printed(program: str, **environment: str) -> list[str]:
    """Return the lines that a program prints in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return child.stdout.splitlines()


@pytest.mark.nightly
def test_a_release_that_the_seam_does_not_know_is_one_line(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("packages/mine/__init__.py", "")  # otherwise it is no folder of packages
    releases(tmp_path / "packages", jax="0.11.0")
    done = project.harness("fuzz", str(SUITE), "--with", "./packages", "--cases", "2")
    assert (done.status, done.err.splitlines()[-1]) == (
        2,
        f"harness: {SUITE}: {WORKS}, but jax 0.11.0 is installed: {COMMAND}",
    )


def test_a_missing_release_is_named_with_the_command() -> None:
    program = (
        "import importlib.metadata as metadata, sys\n"
        "from harness.engines.jax.jax_releases import missing_release\n"
        "sys.path[:] = [one for one in sys.path if 'packages' not in one]\n"
        "print(missing_release())"
    )
    missing = ", ".join(f"{name} is not installed" for name in PINNED["jax"])
    assert printed(program) == [f"{WORKS}, but {missing}: {COMMAND}"]


@pytest.mark.nightly
@pytest.mark.skipif(bool(missing_release()), reason=missing_release() or "JAX is installed")
def test_importing_jax_starts_no_thread_and_keeps_the_folder_of_the_cache() -> None:
    program = (
        "import os\n"
        "from harness.engines.jax.jax_imports import prepare_imports\n"
        "prepare_imports()\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "import jax_triton\n"
        "print(os.environ['TRITON_CACHE_DIR'], len(os.listdir('/proc/self/task')) - before)"
    )
    as_in_workers = {"TRITON_CACHE_DIR": "/its/folder", "OPENBLAS_NUM_THREADS": "1"}
    assert printed(program, **as_in_workers) == ["/its/folder 0"]


def test_a_process_without_jax_loads_neither_torch_nor_triton() -> None:
    program = (
        "import sys\n"
        "from harness.engines.jax.jax_imports import prepare_imports\n"
        "prepare_imports()\n"
        "print(sys.modules.keys() & {'jax', 'torch', 'triton'})"
    )
    assert printed(program) == ["set()"]


@pytest.mark.skipif(bool(missing_release()), reason=missing_release() or "JAX is installed")
def test_a_jax_that_asks_for_a_gpu_is_something_that_is_missing() -> None:
    program = (
        "from harness.execution.missing_parts import missing_part\n"
        "try:\n"
        "    import jax_triton\n"
        "except ImportError as error:\n"
        "    print(missing_part(error))"
    )
    assert printed(program) == ["JAX with support for GPUs, which is not installed"]


def test_a_suite_that_requires_a_missing_jax_is_one_line() -> None:
    assert libraries.absence("suites/mine.py", ("jax", "jax-triton"), is_public=True) == (
        "suites/mine.py tests jax and jax-triton, which are not installed: "
        f"{COMMAND} (it works with jax 0.10.2, jaxlib 0.10.2, jax-triton 0.3.1)"
    )
