"""Cheap copies of a library in which one file is replaced.

Only the folders on the path to the file are created.  Everything else is a symbolic link into the library.
"""

from pathlib import Path

BYTECODE = "__pycache__"


def copy_with_file(library: Path, file: str, content: bytes, folder: Path) -> None:
    """Create `folder` as a copy of `library` with other content in `file`, given relative to the library."""
    source, target = library, folder
    *parents, name = file.split("/")
    for parent in parents:
        _link_all(source, target, except_for=parent)
        source, target = source / parent, target / parent
    _link_all(source, target, except_for=name)
    (target / name).write_bytes(content)


def _link_all(source: Path, target: Path, *, except_for: str) -> None:
    target.mkdir(parents=True)
    for entry in source.iterdir():
        # Bytecode of the replaced file must not end up in the library: __pycache__ is not linked.
        if entry.name not in {except_for, BYTECODE}:
            (target / entry.name).symlink_to(entry)
