"""A library with one file replaced, as a folder of its own that costs next to nothing.

Only the folders on the way to the file are made; all beside them are symbolic links to the library's own.
"""

from pathlib import Path

BYTECODE = "__pycache__"


def copy_with(library: Path, file: str, content: bytes, folder: Path) -> None:
    """Make `folder`, which does not exist yet, a copy of `library` with other content in `file`."""
    here, there = library, folder
    *parents, name = file.split("/")
    for parent in parents:
        _link_all(here, there, but=parent)
        here, there = here / parent, there / parent
    _link_all(here, there, but=name)
    (there / name).write_bytes(content)


def _link_all(source: Path, target: Path, *, but: str) -> None:
    target.mkdir(parents=True)
    for entry in source.iterdir():
        # The bytecode of a replaced file must not be written beside that of the file it replaces.
        if entry.name not in {but, BYTECODE}:
            (target / entry.name).symlink_to(entry)
