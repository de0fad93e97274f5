"""Libraries under test are installed from wheels and folders made here; no test needs the network."""

import io
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path

import pytest

from harness import libraries
from harness.errors import LibraryError, MissingPart, UsageError
from harness.libraries import PYTHON_TAG, absence, lacking, of_project, portable, resolve


def wheel(folder: Path, version: str = "1.0", *, marker: str = "first") -> Path:
    """Make a wheel of the library `tiny`, which requires a distribution that does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"tiny_kernels-{version}-py3-none-any.whl"
    info = f"tiny_kernels-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny/__init__.py", f"MARKER = {marker!r}\n")
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: tiny-kernels\nVersion: {version}\nRequires-Dist: no-such-thing-at-all\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def marker_in(path: str) -> str:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import tiny; print(tiny.MARKER)"
    return subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip uses as its only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_wheel_is_installed_without_its_dependencies(tmp_path: Path) -> None:
    (path,) = resolve([str(wheel(tmp_path))], cache=tmp_path / "cache")
    assert marker_in(path) == "first"


def test_wheels_of_equal_name_and_version_are_distinguished_by_content(tmp_path: Path) -> None:
    files = [wheel(tmp_path / marker, marker=marker) for marker in ("first", "second")]
    paths = [resolve([str(file)], cache=tmp_path / "cache")[0] for file in files]
    assert [marker_in(path) for path in paths] == ["first", "second"]


def test_a_pinned_release_is_installed_once(tmp_path: Path, index: Path) -> None:
    file = wheel(index)
    first = resolve(["tiny-kernels==1.0"], cache=tmp_path / "cache")
    file.unlink()
    assert resolve(["tiny_Kernels == 1.0"], cache=tmp_path / "cache") == first
    assert first == (str(tmp_path / "cache" / "libraries" / f"tiny-kernels-1.0-{PYTHON_TAG}"),)


def test_a_release_without_a_pin_is_looked_up_each_time(tmp_path: Path, index: Path) -> None:
    reported: list[str] = []
    wheel(index, "1.0")
    resolve(["tiny-kernels"], cache=tmp_path / "cache", report=reported.append)
    wheel(index, "1.1", marker="newer")
    (path,) = resolve(["tiny-kernels"], cache=tmp_path / "cache", report=reported.append)
    assert marker_in(path) == "newer"
    installing = f"installing tiny-kernels into {tmp_path / 'cache' / 'libraries'}"
    assert reported == [
        installing,
        "--with tiny-kernels is tiny-kernels 1.0",
        installing,
        "--with tiny-kernels is tiny-kernels 1.1",
    ]


def test_processes_that_install_one_release_at_once_share_it(tmp_path: Path, index: Path) -> None:
    wheel(index)
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: resolve(["tiny-kernels==1.0"], cache=tmp_path / "cache"), range(4)))
    assert [marker_in(path) for (path,) in paths] == ["first"]


def test_leftovers_of_a_killed_installation_are_removed(tmp_path: Path, index: Path) -> None:
    wheel(index)
    unfinished = tmp_path / "cache" / "libraries" / f".tiny-kernels-1.0-{PYTHON_TAG}.unfinished"
    unfinished.joinpath("tiny").mkdir(parents=True)
    (path,) = resolve(["tiny-kernels==1.0"], cache=tmp_path / "cache")
    assert (marker_in(path), unfinished.exists()) == ("first", False)


def test_an_importable_folder_is_used_directly(tmp_path: Path) -> None:
    for root in ("flat", "nested/src"):
        (tmp_path / root / "tiny").mkdir(parents=True)
        (tmp_path / root / "tiny" / "__init__.py").touch()
    assert resolve([str(tmp_path / "flat"), str(tmp_path / "nested")], cache=tmp_path / "cache") == (
        str(tmp_path / "flat"),
        str(tmp_path / "nested" / "src"),
    )


BACKEND = """
import zipfile
from pathlib import Path

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tiny_kernels-1.0-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as archive:
        archive.write("native.so", "tiny/native.so")
        info = "tiny_kernels-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny-kernels\\nVersion: 1.0\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "")
    return name
"""


def test_another_build_of_an_extension_is_another_installation(tmp_path: Path, index: Path) -> None:
    del index  # the project needs nothing to be built
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "backend.py").write_text(BACKEND, encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n', encoding="utf-8"
    )
    installed: list[bytes] = []
    for content in (b"first", b"second"):
        (folder / "native.so").write_bytes(content)
        (path,) = resolve([str(folder)], cache=tmp_path / "cache", report=lambda _: None)
        installed.append(Path(path, "tiny", "native.so").read_bytes())
    assert installed == [b"first", b"second"]


def test_a_missing_release_reports_pips_error_and_command(tmp_path: Path, index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(LibraryError) as caught:
        resolve(["tiny-kernels==9.9"], cache=tmp_path / "cache")
    said = str(caught.value)
    assert said.startswith(
        "cannot install tiny-kernels==9.9: No matching distribution found for tiny-kernels==9.9. "
        f"To see more: {sys.executable} -m pip install "
    )
    assert said.endswith(" tiny-kernels==9.9")
    assert "\n" not in said


def test_a_pip_that_does_not_end_has_a_limit(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert index.is_dir()
    monkeypatch.setattr(libraries, "PIP_LIMIT_S", 0.01)
    with pytest.raises(LibraryError, match=r"pip did not end within .* h"):
        libraries.resolve(["tiny-kernels==1.0"], cache=tmp_path / "cache")


def test_a_broken_wheel_is_the_librarys_fault(tmp_path: Path) -> None:
    file = tmp_path / "tiny_kernels-1.0-py3-none-any.whl"
    file.write_bytes(b"no archive")
    with pytest.raises(LibraryError, match=r"cannot install .*tiny_kernels"):
        resolve([str(file)], cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("./nowhere", "no such file or folder"),
        ("absent-1.0-py3-none-any.whl", "no such file or folder"),
        ("fla core == 1", "neither a requirement such as fla-core==0.5.2, nor a wheel, nor a folder"),
    ],
)
def test_a_spec_that_is_no_library_is_named(spec: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        resolve([spec], cache=tmp_path)


def test_a_package_folder_suggests_its_parent(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "__init__.py").touch()
    with pytest.raises(UsageError, match=f"name the folder that it is in, {tmp_path}"):
        resolve([str(tmp_path / "tiny")], cache=tmp_path / "cache")


def test_an_empty_folder_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a package nor a project"):
        resolve([str(tmp_path)], cache=tmp_path / "cache")


def test_two_releases_of_one_library_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names fla-core twice"):
        resolve(["fla-core==0.5.2", "fla_core==0.6.0"], cache=tmp_path)


def test_an_unwritable_cache_names_the_remedy(tmp_path: Path, index: Path) -> None:
    wheel(index)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(LibraryError, match="export HARNESS_CACHE"):
        resolve(["tiny-kernels==1.0"], cache=tmp_path / "cache")


def test_without_pip_the_error_names_the_command_that_provides_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)  # noqa: ARG005 - as the original calls it
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPart, match=r"--with needs pip: .* -m ensurepip$"):
        resolve(["tiny-kernels==1.0"], cache=tmp_path)


@pytest.mark.parametrize(
    ("specs", "missing"),
    [
        ([], ("tiny-kernels", "no-such-thing")),
        (["tiny_kernels==1.0"], ("no-such-thing",)),
        (["tiny_kernels==1.0", "No.Such.Thing>=2"], ()),
        (["WHEEL"], ("no-such-thing",)),
        (["INSTALLED"], ("no-such-thing",)),
        (["CHECKOUT"], ()),
        (["tiny_kernels==1.0", "CHECKOUT"], ()),
    ],
)
def test_missing_distributions_are_found_without_an_installation(
    specs: list[str], missing: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "checkout" / "tiny").mkdir(parents=True)
    (tmp_path / "checkout" / "tiny" / "__init__.py").touch()
    file = wheel(tmp_path)
    meant = {"WHEEL": str(file), "CHECKOUT": str(tmp_path / "checkout")}
    if "INSTALLED" in specs:
        (meant["INSTALLED"],) = resolve([str(file)], cache=tmp_path / "cache")
    required = ("tiny-kernels", "pytest", "no-such-thing", "tiny-kernels")
    assert lacking(required, [meant.get(spec, spec) for spec in specs]) == missing


@pytest.mark.parametrize(("spec", "missing"), [("other", ("sources:tiny",)), ("sources:tiny==1", ()), ("tiny==1", ())])
def test_a_library_that_is_read_from_sources_may_be_installed_too(spec: str, missing: tuple[str, ...]) -> None:
    assert lacking(["sources:tiny", "sources:pytest"], [spec]) == missing


def test_a_missing_library_is_suggested_as_the_suite_takes_it() -> None:
    assert absence("a.py", ["tiny", "sources:large"], is_public=True) == (
        "a.py tests tiny and large, which are not installed: add --with tiny --with sources:large==VERSION"
    )


def test_a_library_that_pypi_does_not_have_is_suggested_as_a_checkout() -> None:
    assert absence("a.py", ["amd-aiter"], is_public=True) == (
        "a.py tests amd-aiter, which is not installed: add --with and the folder of a checkout: "
        "git clone https://github.com/ROCm/aiter"
    )


@pytest.mark.parametrize(("spec", "missing"), [("old-name==0.1", ()), ("new-name", ()), ("other", ("new-name",))])
def test_a_distribution_may_have_alternatives(spec: str, missing: tuple[str, ...]) -> None:
    assert lacking([("new-name", "old-name"), "pytest"], [spec]) == missing


def test_a_full_cache_is_named_in_one_line(tmp_path: Path, index: Path) -> None:
    wheel(index, marker="x" * 2**21)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(LibraryError) as raised:
            resolve(["tiny-kernels==1.0"], cache=disk)
    finally:
        subprocess.run(["/bin/umount", "--lazy", disk], check=True)
    assert f"No space left on device (0 MiB free in {disk / 'libraries'}, " in str(raised.value)
    assert "export HARNESS_CACHE=" in str(raised.value)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("spec", "kept"), [("/p", "."), ("/p/src", "./src"), ("/q", "/q"), ("/pq", "/pq"), ("a==1", "a==1")]
)
def test_paths_inside_a_project_are_kept_relative_to_it(spec: str, kept: str) -> None:
    assert portable(spec, Path("/p")) == kept
    assert of_project(kept, Path("/p")) == spec


def source_archive(index: Path, setup: str, *, folder: str = "") -> None:
    """Put a source archive of `tiny-kernels` 1.0 into the index."""
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: tiny-kernels\nVersion: 1.0\n",
        "setup.py": setup,
        f"{folder}tiny/__init__.py": "MARKER = 'unbuilt'\n",
        "csrc/kernel.cu": "",
        f"{folder}tests/__init__.py": "",
    }
    with tarfile.open(index / "tiny-kernels-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"tiny-kernels-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "src/"])
@pytest.mark.parametrize("setup", ["import surely_no_compiler\n", "from setuptools import setup\nsetup()\n"])
def test_sources_are_unpacked_whether_or_not_they_could_be_built(
    tmp_path: Path, index: Path, setup: str, folder: str
) -> None:
    source_archive(index, setup, folder=folder)
    spec = "sources:tiny-kernels==1.0"
    (path,) = resolve([spec], cache=tmp_path / "cache")
    assert Path(path).name == f"tiny-kernels-1.0-sources-{PYTHON_TAG}"
    assert (marker_in(path), sorted(one.name for one in Path(path).iterdir())) == (
        "unbuilt",
        ["tiny", "tiny_kernels-1.0.dist-info"],
    )
    assert [found.version for found in distributions(name="tiny-kernels", path=[path])] == ["1.0"]
    assert lacking(["tiny-kernels"], [spec]) == ()
    assert not [one for one in (tmp_path / "cache" / "libraries").iterdir() if one.name.startswith(".unpacking")]


@pytest.mark.slow
def test_missing_sources_report_pips_error(tmp_path: Path, index: Path) -> None:
    assert index.is_dir()
    with pytest.raises(LibraryError, match=r"sources:tiny-kernels==9.9: No matching distribution found"):
        resolve(["sources:tiny-kernels==9.9"], cache=tmp_path / "cache")
