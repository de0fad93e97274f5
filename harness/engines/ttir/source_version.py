"""The version of source files, for the names of what they decide: what another version made is never loaded."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def source_version(files: Iterable[Path]) -> str:
    """Return a digest of the contents of the files, in the order of their paths."""
    digest = hashlib.sha256()
    for file in sorted({*files}):
        digest.update(file.read_bytes())
    return digest.hexdigest()
