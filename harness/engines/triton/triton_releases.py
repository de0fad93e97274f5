"""The releases of Triton for which the harness is written: one row each.  Nothing of Triton is imported.

The range in `pyproject.toml`, the two environments and the pages that name releases follow from these rows;
`test_triton_releases.py` compares them.  `docs/explanation/new-releases.md` says how a row is added.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonRelease:
    """One minor release."""

    version: str
    """The release that was tested: `3.7.1`."""
    pins: str = ""
    """The file of `constraints/` with which all tests run; empty if only those of `engines/triton` did."""
    newer_ptxas_from: tuple[int, int] = (10, 0)
    """The first compute capability that gets the newer assembler, `ptxas-blackwell`."""

    @property
    def minor(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def minor_text(self) -> str:
        return ".".join(map(str, self.minor))


RELEASES = (
    TritonRelease(version="3.6.0", pins="ci.txt"),
    TritonRelease(version="3.7.1"),
    TritonRelease(version="3.8.0"),
    TritonRelease(version="3.9.0", pins="ci-triton-3.9.txt", newer_ptxas_from=(9, 0)),
)
"""From the oldest to the newest."""

TESTED = f"Triton {RELEASES[0].minor_text} to {RELEASES[-1].minor_text}"


def release_of(version: str) -> TritonRelease:
    """Return the row of a version: of its minor release, or of the nearest one that is known."""
    major, minor = version.split(".")[:2]
    older = [release for release in RELEASES if release.minor <= (int(major), int(minor))]
    return older[-1] if older else RELEASES[0]
