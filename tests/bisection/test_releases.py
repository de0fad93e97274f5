"""The releases of a package are those that pip offers, from wherever it is told to look; the index here is a folder."""

from pathlib import Path

import pytest
from packaging.version import Version

from harness.bisection.releases import asks_for, offered, pinned, version_of
from harness.errors import LibraryError, UsageError
from harness.libraries import PYTHON_TAG

pytestmark = pytest.mark.once

LINK = '<a href="tiny_kernels-{version}-py3-none-any.whl"{attributes}>tiny_kernels-{version}-py3-none-any.whl</a>\n'


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page of `tiny-kernels`, in an index that pip takes for its only one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    for other in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(other, raising=False)
    page = tmp_path / "simple" / "tiny-kernels" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<!DOCTYPE html><html><body></body></html>", encoding="utf-8")
    return page


def publish(page: Path, version: str, attributes: str = "") -> None:
    page.write_text(page.read_text(encoding="utf-8") + LINK.format(version=version, attributes=attributes))


def test_they_are_in_the_order_of_versions_without_those_that_were_withdrawn_or_are_not_released_yet(
    index: Path,
) -> None:
    for version in ("1.10", "1.9", "1.9.post1", "2.0rc1"):
        publish(index, version)
    publish(index, "1.11", ' data-yanked="wrong values"')
    publish(index, "1.12", ' data-requires-python="&gt;=4"')
    assert offered("tiny_Kernels") == tuple(map(Version, ("1.9", "1.9.post1", "1.10")))


def test_a_package_that_does_not_exist_gets_the_nearest_name_under_test(index: Path, tmp_path: Path) -> None:
    assert index.is_file()
    info = tmp_path / "cache" / "libraries" / f"cached-kernels-1.0-{PYTHON_TAG}" / "cached_kernels-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cached-kernels\nVersion: 1.0\n")
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "norm.py").write_text(
        "from harness.suite import op, tokens\n\n"
        "@op(dims={'T': tokens()}, inputs={}, requires=('guarded-kernels',))\ndef one(T):\n    return T\n\n"
        "@one.reference\ndef _(T):\n    return T\n"
    )
    for wrong, right in (("cached-kernel", "cached-kernels"), ("garded", "guarded-kernels")):
        with pytest.raises(UsageError, match=f"^unknown package '{wrong}': did you mean .*{right}"):
            offered(wrong)
    with pytest.raises(UsageError, match=r"^unknown package 'qqqqqq': known: cached-kernels, guarded-kernels$"):
        offered("qqqqqq")


def test_a_package_that_is_known_here_but_not_offered_is_not_called_unknown(index: Path) -> None:
    assert index.is_file()
    with pytest.raises(
        LibraryError, match=r"pip lists no releases of pytest: .* To see more: .* index versions .* -v$"
    ):
        offered("pytest")


@pytest.mark.parametrize(
    ("spec", "release"),
    [("fla_core == 0.5.2", "0.5.2"), ("fla-core>=0.5", None), ("fla-core", None), ("fla-core==0.5.*", None)],
)
def test_the_release_of_a_spec_is_known_where_it_is_pinned(spec: str, release: str | None) -> None:
    assert (asks_for(spec, "fla-core"), pinned(spec)) == (True, release)


def test_a_folder_or_an_archive_asks_for_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fla-core").mkdir()
    for spec in ("fla-core", "../fla-core", "fla_core-0.5.2-py3-none-any.whl", str(tmp_path)):
        assert not asks_for(spec, "fla-core")


def test_what_is_no_version_is_named_with_its_option() -> None:
    with pytest.raises(UsageError, match=r"--good 'main' is no version such as 0\.5\.2"):
        version_of("main", "--good")
