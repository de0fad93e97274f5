"""The releases of a package are those that pip offers; the index here is a folder."""

from pathlib import Path

import pytest
from packaging.version import Version

from harness.errors import LibraryError, UsageError
from harness.findings.bisection import releases
from harness.findings.bisection.releases import names_package, offered, pinned_release, version_of
from harness.libraries import PYTHON_TAG

LINK = '<a href="tiny_kernels-{version}-py3-none-any.whl"{attributes}>tiny_kernels-{version}-py3-none-any.whl</a>\n'


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page of `tiny-kernels` in the only index that pip uses."""
    monkeypatch.chdir(tmp_path)
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


def test_releases_are_sorted_without_yanked_ones_and_prereleases(index: Path, tmp_path: Path) -> None:
    for version in ("1.10", "1.9", "1.9.post1", "2.0rc1"):
        publish(index, version)
    publish(index, "1.11", ' data-yanked="wrong values"')
    publish(index, "1.12", ' data-requires-python="&gt;=4"')
    assert offered("tiny_Kernels", tmp_path / "cache") == tuple(map(Version, ("1.9", "1.9.post1", "1.10")))


def test_an_unknown_package_gets_the_nearest_known_name(index: Path, tmp_path: Path) -> None:
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
            offered(wrong, tmp_path / "cache")
    with pytest.raises(UsageError, match=r"^unknown package 'qqqqqq': known: cached-kernels, guarded-kernels$"):
        offered("qqqqqq", tmp_path / "cache")


def test_a_known_package_that_pip_does_not_list_is_no_unknown_package(index: Path, tmp_path: Path) -> None:
    assert index.is_file()
    with pytest.raises(
        LibraryError, match=r"pip lists no releases of pytest: .* To see more: .* index versions .* -v$"
    ):
        offered("pytest", tmp_path / "cache")


@pytest.mark.parametrize(
    ("spec", "release"),
    [("fla_core == 0.5.2", "0.5.2"), ("fla-core>=0.5", None), ("fla-core", None), ("fla-core==0.5.*", None)],
)
def test_a_pinned_spec_has_one_release(spec: str, release: str | None) -> None:
    assert (names_package(spec, "fla-core"), pinned_release(spec)) == (True, release)


def test_a_folder_or_an_archive_names_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fla-core").mkdir()
    for spec in ("fla-core", "../fla-core", "fla_core-0.5.2-py3-none-any.whl", str(tmp_path)):
        assert not names_package(spec, "fla-core")


def test_an_invalid_version_is_named_with_its_option() -> None:
    with pytest.raises(UsageError, match=r"--good 'main' is no version such as 0\.5\.2"):
        version_of("main", "--good")


def test_a_pip_without_an_answer_has_a_limit(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert index.is_file()
    monkeypatch.setattr(releases, "PIP_LIMIT_S", 0.01)
    with pytest.raises(LibraryError, match=r"no answer within 0\.01 s"):
        offered("tiny-kernels", tmp_path / "cache")
