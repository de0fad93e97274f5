"""The project's folder as bytes: packed where a search is divided, and unpacked once on each machine that runs a part.

In a git repository, the archive has what git tracks or would track.  Elsewhere it has everything but hidden folders and
caches.
"""

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from harness.errors import UsageError

MOST_BYTES = 256 << 20
"""More than any project's source: a data set or a build has come along."""
CACHES = frozenset({"__pycache__", "node_modules"})


def packed(project: Path) -> bytes:
    """Return the project's folder as a compressed archive, the same for the same files.

    Raises:
        UsageError: the files are too large, or cannot be read.
    """
    target = io.BytesIO()
    size = 0
    try:
        with tarfile.open(fileobj=target, mode="w:xz", preset=1) as archive:
            for name in sorted(_files(project)):
                path = project / name
                size += path.stat().st_size
                if size > MOST_BYTES:
                    raise UsageError(
                        f"{project} has more than {MOST_BYTES >> 20} MiB to send to the machines of a cluster: keep "
                        "data and builds out of it, or list them in .gitignore"
                    )
                archive.add(path, arcname=name, recursive=False, filter=_anonymous)
    except OSError as error:
        raise UsageError(f"cannot pack {project}: {error}") from None
    return target.getvalue()


def _files(project: Path) -> Iterator[str]:
    listed = ("git", "-C", str(project), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if (project / ".git").exists():
        names = subprocess.run(listed, check=False, capture_output=True, text=True)
        if names.returncode == 0:
            yield from (name for name in names.stdout.split("\0") if (project / name).is_file())
            return
    for folder, folders, names_here in os.walk(project):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in CACHES]
        yield from (os.path.relpath(Path(folder, name), project) for name in names_here)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out what differs between two checkouts of the same files."""
    member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
    return member


def unpacked(archive: bytes, folder: Path) -> Path:
    """Return the folder that holds the files of an archive, after unpacking it unless that was done before."""
    place = folder / hashlib.sha256(archive).hexdigest()[:16]
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(dir=folder))
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:xz") as files:
        files.extractall(draft, filter="data")
    (draft / "pyproject.toml").touch()  # it marks the root of the project, whatever is above
    try:
        draft.rename(place)
    except OSError:
        if not place.is_dir():  # another task was faster
            raise
    return place
