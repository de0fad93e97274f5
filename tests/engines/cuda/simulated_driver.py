"""A simulated driver for machines without a GPU: two libraries with the names of NVIDIA's."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")
COMPILER = shutil.which("cc")


def build(folder: Path) -> Path:
    """Compile the driver and return the folder to put on LD_LIBRARY_PATH."""
    if COMPILER is None:
        pytest.skip("the simulated driver needs a C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O0", "-w", "-o", str(library), str(SOURCE)], check=True)
    (folder / "libnvidia-ml.so.1").symlink_to(library.name)
    return folder
