"""Tritons for tests of upgrades: the installed one under other version numbers, as it is or with a changed language."""

from importlib.metadata import distribution
from pathlib import Path

from harness.libraries import PYTHON_TAG


def install(cache: Path, version: str, *, language: str = "") -> None:
    """Put the installed Triton into the harness's cache as another release.

    Args:
        cache: the cache.
        version: that of the release.
        language: Python code that the release's `triton.language` runs at the end of its import.
    """
    real = distribution("triton")
    place = cache / "libraries" / f"triton-{version}-{PYTHON_TAG}"
    metadata = place / f"triton-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(real.read_text("entry_points.txt") or "", encoding="utf-8")
    package = Path(str(real.locate_file("triton")))
    if not language:
        (place / "triton").symlink_to(package)
        return
    _linked(package, place / "triton", but="language")
    _linked(package / "language", place / "triton" / "language", but="__init__.py")
    text = (package / "language" / "__init__.py").read_text(encoding="utf-8")
    (place / "triton" / "language" / "__init__.py").write_text(f"{text}\n{language}\n", encoding="utf-8")


def _linked(folder: Path, copy: Path, *, but: str) -> None:
    """Make a folder of links to everything in another one but one name."""
    copy.mkdir()
    for path in folder.iterdir():
        if path.name != but:
            (copy / path.name).symlink_to(path)
