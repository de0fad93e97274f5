"""The cache of builds on a disk that is full."""

import subprocess
from pathlib import Path

import pytest

from harness.compiling.build_cache import BuildCache
from harness.errors import disk_problem


def fill(cache: BuildCache) -> None:
    for number in range(100):
        cache.keep_ttir("".join(f"{number * value} " for value in range(2000)))


def test_a_full_cache_is_named_with_its_reason(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        cache = BuildCache(disk)
        with pytest.raises(OSError, match="No space left on device") as raised:
            fill(cache)
    finally:
        subprocess.run(["/bin/umount", "--lazy", disk], check=True)
    problem = disk_problem(raised.value)
    assert problem is not None
    assert problem.startswith(f"{disk}/ttir/")
    assert problem.endswith(": No space left on device")
