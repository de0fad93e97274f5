"""What names releases of Triton follows from the table of releases."""

import re
import tomllib
from pathlib import Path

import pytest

from harness.engines.triton.triton_releases import RELEASES, TESTED, release_of

ROOT = Path(__file__).parents[3]
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]


def text_of(path: str) -> str:
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


def test_the_range_of_the_package_ends_after_the_newest_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    major, minor = NEWEST.minor
    assert f"triton>={OLDEST.minor_text},<{major}.{minor + 1}" in project["dependencies"]


def test_both_ends_of_the_range_have_an_environment() -> None:
    pinned = {release.pins: release.version for release in RELEASES if release.pins}
    for pins, version in pinned.items():
        assert re.findall(r"^triton==(.*)$", (ROOT / "constraints" / pins).read_text("utf-8"), re.MULTILINE) == [
            version
        ]
    assert pinned.keys() == {path.name for path in (ROOT / "constraints").glob("*.txt")}
    assert list(pinned) == [OLDEST.pins, NEWEST.pins]
    makefile = text_of("Makefile")
    assert re.findall(r"ci/setup\.sh \$\((?:VENV|VENV_39)\) constraints/(\S+)", makefile) == list(pinned)
    assert f"VENV_{NEWEST.minor_text.replace('.', '')} := .venv-triton" in makefile


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", f"with Triton {OLDEST.version} and with Triton {NEWEST.version}"),
        ("Makefile", f"with Triton {OLDEST.version} and with {NEWEST.version}"),
        ("docs/how-to/jax.md", f"with {TESTED}"),
        ("docs/reference/ttir.md", f"every operation that {TESTED} emits"),
        ("docs/reference/devices.md", f"| Triton {OLDEST.version} |"),
        ("docs/reference/devices.md", f"| Triton {', '.join(release.version for release in RELEASES[1:])} |"),
        ("harness/catalogue.toml", f"{', '.join(release.version for release in RELEASES[:-1])} and {NEWEST.version}"),
    ],
)
def test_pages_name_the_releases_of_the_table(page: str, words: str) -> None:
    assert words in text_of(page)


def test_an_unknown_release_is_taken_for_the_one_before() -> None:
    rows = [release_of(version).version for version in ("3.6.0", "3.7.0", "3.9.1+git", "3.10.0", "3.5.0")]
    assert rows == ["3.6.0", "3.7.1", "3.9.0", "3.9.0", "3.6.0"]
