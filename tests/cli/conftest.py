"""What tests of several commands use."""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

MOUNT, UNMOUNT = "/bin/mount", "/bin/umount"


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = subprocess.run(
        [MOUNT, "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounting.returncode:
        pytest.skip(f"no file system can be mounted here: {mounting.stderr.strip()}")
    yield folder
    subprocess.run([UNMOUNT, "--lazy", folder], check=True)
