"""A disk that is soon full."""

from contextlib import suppress
from pathlib import Path

FULL = "No space left on device"


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
