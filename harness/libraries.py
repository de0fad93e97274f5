"""Libraries under test: installs what `--with` names into folders for the workers' `sys.path`; `.venv` is not touched.

The cache of installed releases has one folder for each release and Python version.  pip installs into a temporary
folder, which is then renamed, so a folder under its final name is complete.  This file imports neither torch nor Triton
nor the libraries.
"""

import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from email import message_from_string
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from filelock import FileLock
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness.errors import LibraryError, MissingPart, UsageError
from harness.extras import PINNED, install_command

LONGEST_ERROR = 200
PYTHON_TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
NOT_INSTALLED = frozenset({"benchmarks", "docs", "examples", "tests"})
"""Packages of a source archive that would hide others of a user: no installation has them at its top."""
PIP_OPTIONS = ("--disable-pip-version-check", "--no-input")
PIP_LIMIT_S = 7200.0
"""A library with an extension may be built, which takes as long."""
DISK_FULL = os.strerror(errno.ENOSPC)
CODE = (".py", ".so")
"""The files of an installation that decide what it does: modules and compiled extensions."""
OF_URL = re.compile(r"[\w.-]+\s*@\s*[\w+]+://")
"""The beginning of a requirement with a URL: `my-library @ git+https://…`."""
COMMIT = re.compile(r"@([0-9a-f]{40})(?:#.*)?$")
"""The end of a URL that names one commit of a repository: the same code each time."""
REPOSITORIES = {"amd-aiter": "https://github.com/ROCm/aiter"}
"""Where the checkouts are of public libraries that PyPI does not have, by distribution."""
ARCHIVES = (".whl", ".tar.gz", ".zip")
SOURCES = "sources:"
"""The beginning of a spec whose source archive is unpacked and not built, for a library with a compiled extension."""


def resolve(specs: Iterable[str], *, cache: Path, report: Callable[[str], object] | None = None) -> tuple[str, ...]:
    """Return folders for the workers' `sys.path`, in the order of `specs`; install what is not in the cache yet.

    Args:
        specs: each a PyPI requirement (`fla-core==0.5.2`), a wheel, a source archive, or a folder.  A requirement
            without a version is looked up anew each time.  `sources:vllm==0.24.0` takes the Python packages of a
            release's source archive as they are, without building its extension.
        cache: installed releases are kept in `cache / "libraries"`.
        report: called with a line for each version that was looked up; prints to the error stream by default.

    Raises:
        UsageError: a spec is none of these, or two name the same distribution.
        LibraryError: pip cannot install it; the text has pip's own error and the command to see more.
        MissingPart: there is no pip.
    """
    folder = cache / "libraries"
    sources = [_read(spec) for spec in specs]
    _refuse_duplicates(sources)
    return tuple(str(_path_of(source, folder, report or _print_to_stderr)) for source in sources)


def absolute_path(spec: str) -> str:
    """Return a spec that holds in any folder: an absolute path in the place of a relative one."""
    path = Path(spec).expanduser()
    return os.path.normpath(Path.cwd() / path) if path.exists() or _is_path(spec) else spec


def is_of_index(spec: str) -> bool:
    """Return True if pip takes the spec from its index by its name: no folder, file or URL."""
    if Path(spec).expanduser().exists() or _is_path(spec):
        return False
    try:
        return Requirement(spec.removeprefix(SOURCES)).url is None
    except InvalidRequirement:
        return False


def portable(spec: str, project: Path) -> str:
    """Return a spec that holds wherever the project is: a path inside it becomes relative to it, as `./src`."""
    path = Path(spec)
    if not path.is_absolute() or not path.is_relative_to(project):
        return spec
    inside = path.relative_to(project)
    return f"./{inside}" if inside.parts else "."


def of_project(spec: str, project: Path) -> str:
    """Return the spec that `portable` was given, for the place where the project is now."""
    return os.path.normpath(project / spec) if spec == "." or spec.startswith("./") else spec


def _is_path(spec: str) -> bool:
    return not OF_URL.match(spec) and (os.sep in spec or spec.endswith(ARCHIVES))


def lacking(required: Iterable[str | tuple[str, ...]], specs: Iterable[str]) -> tuple[str, ...]:
    """Return the required distributions that are neither installed here nor named by `specs`; install nothing.

    A tuple has alternative names of one distribution, of which the first is returned.  Names may begin with `sources:`.
    Returns nothing if a spec does not say which distribution it is, for example a source archive.

    Raises:
        UsageError: a spec is none of what `resolve` accepts.
    """
    named = [_distributions_of(_read(spec)) for spec in specs]
    if not all(named):
        return ()
    provided = {name for names in named for name in names}
    return tuple(
        names[0]
        for names in dict.fromkeys((spelled,) if isinstance(spelled, str) else spelled for spelled in required)
        if not any(canonicalize_name(name) in provided or any(distributions(name=name)) for name in map(name_of, names))
    )


def importable_root(folder: Path) -> Path | None:
    """Return the folder from which Python imports the packages of a checkout; None if it has to be installed."""
    return next((root for root in (folder / "src", folder) if any(root.glob("*/__init__.py"))), None)


def name_of(required: str) -> str:
    """Return the distribution that a suite requires: `vllm` for `sources:vllm`."""
    return required.removeprefix(SOURCES)


def absence(suite: str, missing: Sequence[str], *, is_public: bool, verb: str = "tests") -> str:
    """Return the message for libraries that are not installed."""
    are = "is" if len(missing) == 1 else "are"
    names = " and ".join(map(name_of, missing))
    return f"{suite} {verb} {names}, which {are} not installed: {remedy(missing, is_public=is_public)}"


def remedy(missing: Iterable[str], *, is_public: bool) -> str:
    """Return which option to add for missing libraries.

    A library that is not known to be public is never suggested by its name: another project may own that name on PyPI.
    Libraries whose private names the harness touches come with an extra, in the releases that it knows.  Of a library
    that is read from sources, a suite knows some releases: the newest may have other files.  Of a library
    that PyPI does not have, a checkout serves.
    """
    missing = tuple(missing)
    for extra, pins in PINNED.items():
        if all(name in pins for name in missing):
            releases = ", ".join(f"{name} {release}" for name, release in pins.items())
            return f"{install_command(extra)} (it works with {releases})"
    if not is_public:
        return "add --with and its folder or wheel"
    if clones := [f"git clone {REPOSITORIES[name]}" for name in missing if name in REPOSITORIES]:
        return f"add --with and the folder of a checkout: {' and '.join(clones)}"
    specs = (f"{name}==VERSION" if name.startswith(SOURCES) else name for name in missing)
    return f"add {' '.join(f'--with {spec}' for spec in specs)}"


def importable(module: str, folders: Iterable[str]) -> bool:
    """Return True if the top-level module is installed here or in one of the folders.  Imports nothing."""
    root = module.partition(".")[0]
    try:
        if root in sys.modules or find_spec(root) is not None:
            return True
    except ValueError:  # a module that was put there without a spec
        return True
    return PathFinder.find_spec(root, list(folders)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportableFolder:
    """A folder from which Python can import the library without installation."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Something that pip installs."""

    spec: str
    """The text on the command line."""
    argument: str
    """The requirement or path for pip."""
    key: str | None
    """The name of its folder in the cache; None if only the installation shows the version."""
    name: str | None = None
    """The distribution's normalised name, if the spec contains it."""
    is_built: bool = True
    """False if only the Python packages of its source archive are wanted."""


Source = ImportableFolder | Release


def _read(spec: str) -> Source:
    path = Path(spec).expanduser()
    if path.is_dir():
        return _read_folder(spec, path.resolve())
    if path.is_file():
        return Release(spec=spec, argument=str(path.resolve()), key=f"{path.stem}-{_digest(path)}-{PYTHON_TAG}")
    if _is_path(spec):
        raise UsageError(f"--with {spec}: there is no such file or folder")
    argument = spec.removeprefix(SOURCES)
    try:
        requirement = Requirement(argument)
    except InvalidRequirement as error:
        raise UsageError(
            f"--with {spec!r} is neither a requirement such as fla-core==0.5.2, nor a wheel, nor a folder"
        ) from error
    name = canonicalize_name(requirement.name)
    pinned = [specifier.version for specifier in requirement.specifier if specifier.operator in ("==", "===")]
    exact = len(pinned) == len(requirement.specifier) == 1 and not pinned[0].endswith(".*")
    is_built = argument == spec
    commit = COMMIT.search(requirement.url or "")
    version = pinned[0] if exact else commit[1][:12] if commit else None
    key = None if version is None else _key(name, version, is_built=is_built)
    # Some releases of pip refuse a name before a URL such as git+file://.
    return Release(spec=spec, argument=requirement.url or argument, key=key, name=name, is_built=is_built)


def _read_folder(spec: str, path: Path) -> Source:
    if (path / "__init__.py").is_file():
        raise UsageError(f"--with {spec} is a package itself: name the folder that it is in, {path.parent}")
    if root := importable_root(path):
        return ImportableFolder(path=root)
    if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise UsageError(f"--with {spec}: the folder holds neither a package nor a project that pip could install")
    return Release(spec=spec, argument=str(path), key=None)


def _distributions_of(source: Source) -> set[str]:
    """Return the names of the distributions in a source; nothing if they are unknown."""
    match source:
        case ImportableFolder(path=path):
            return {
                canonicalize_name(distribution.metadata["Name"]) for distribution in distributions(path=[str(path)])
            }
        case Release(name=str(name)):
            return {name}
        case Release(argument=argument) if argument.endswith(".whl"):
            return {canonicalize_name(Path(argument).name.partition("-")[0])}
        case Release():
            return set()


def _refuse_duplicates(sources: Iterable[Source]) -> None:
    seen: set[str] = set()
    for source in sources:
        if isinstance(source, Release) and source.name is not None:
            if source.name in seen:
                raise UsageError(f"--with names {source.name} twice: test one release after the other")
            seen.add(source.name)


def _path_of(source: Source, folder: Path, report: Callable[[str], object]) -> Path:
    match source:
        case ImportableFolder():
            return source.path
        case Release():
            try:
                return _installed(source, folder, report)
            except OSError as error:
                raise LibraryError(
                    f"cannot keep {source.spec} in {folder}: {error}. Name another folder: export HARNESS_CACHE=…"
                ) from error


def _installed(release: Release, folder: Path, report: Callable[[str], object]) -> Path:
    if release.key is not None and (folder / release.key).is_dir():
        return folder / release.key
    folder.mkdir(parents=True, exist_ok=True)
    unpinned = "afresh" if release.is_built else "sources-afresh"
    work = release.key or f"{release.name or _digest_of(release.argument)}-{unpinned}-{PYTHON_TAG}"
    with FileLock(folder / f".{work}.lock"):
        if release.key is not None and (folder / release.key).is_dir():
            return folder / release.key
        unfinished = folder / f".{work}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process: this one holds the lock now
        try:
            report(f"installing {release.spec} into {folder}")
            if release.is_built:
                _run_pip(release, unfinished)
            else:
                _unpack_sources(release, unfinished)
            final = folder / (release.key or _key_of_installed(release, unfinished, report))
            if not final.is_dir():
                unfinished.replace(final)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return final


def _key_of_installed(release: Release, unfinished: Path, report: Callable[[str], object]) -> str:
    distribution = next(iter(distributions(path=[str(unfinished)])), None)
    if distribution is None:
        raise LibraryError(f"cannot install {release.spec}: pip put no distribution into {unfinished}")
    name = canonicalize_name(distribution.metadata["Name"])
    report(f"--with {release.spec} is {name} {distribution.version}")
    if release.name is not None:
        return _key(name, distribution.version, is_built=release.is_built)
    # Sources in a folder change without a new version, so the key has a digest of the installed files.
    return f"{_key(name, distribution.version)}-{_digest_of_tree(unfinished)}"


def _run_pip(release: Release, target: Path) -> None:
    command = [*_pip(), "--no-deps", "--target", str(target), release.argument]
    finished = _finished(command)
    if finished.returncode:
        raise _failure(release, target.parent, command, finished.stderr)


def _unpack_sources(release: Release, target: Path) -> None:
    """Copy the packages of the release's source archive, and its metadata in the form of an installed distribution.

    pip unpacks an archive before it asks the project for its metadata.  That question fails for a project that needs a
    compiler or CUDA, so the answer does not count: `--no-clean` keeps the unpacked files either way.
    """
    if find_spec("pip") is None:
        raise pip_missing(f"--with {release.spec}")
    target.mkdir(parents=True)
    with TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as work:
        # No isolation: what a build requires, such as torch itself, is not worth a download for a question.
        settings = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--no-clean", "--dest", f"{work}/dest")
        command = [sys.executable, "-m", "pip", "download", *PIP_OPTIONS, *settings, release.argument]
        finished = _finished(command, TMPDIR=work)
        unpacked = next(Path(work).glob("pip-*/*/PKG-INFO"), None)
        if unpacked is None:
            raise _failure(release, target.parent, command, finished.stderr)
        tree = unpacked.parent
        root = importable_root(tree) or tree
        for package in sorted(file.parent for file in root.glob("*/__init__.py")):
            if package.name not in NOT_INSTALLED:
                shutil.copytree(package, target / package.name, symlinks=True)
        described = message_from_string(unpacked.read_text(encoding="utf-8"))
        name = canonicalize_name(described["Name"]).replace("-", "_")  # as importlib.metadata looks for it
        metadata = target / f"{name}-{described['Version']}.dist-info"
        metadata.mkdir()
        shutil.copy(unpacked, metadata / "METADATA")


def _finished(command: Sequence[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    # PIP_USER=1 in a user's settings would contradict --target.
    try:
        return run_pip(command, PIP_LIMIT_S, PIP_USER="0", **variables)
    except subprocess.TimeoutExpired:
        raise LibraryError(
            f"pip did not end within {PIP_LIMIT_S / 3600:g} h. To see more: {shlex.join(command)}"
        ) from None


def run_pip(command: Sequence[str], limit_s: float, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of pip that asks nothing, with these variables beside those of this process.

    Raises:
        subprocess.TimeoutExpired: it did not end.
    """
    return subprocess.run(
        command,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=limit_s,
    )


def _failure(release: Release, cache: Path, command: Sequence[str], output: str) -> LibraryError:
    reason = _last_error(output)
    if DISK_FULL in reason:
        return LibraryError(f"cannot install {release.spec}: {_full_disk(cache)}")
    return LibraryError(f"cannot install {release.spec}: {reason}. To see more: {shlex.join(command)}")


def _full_disk(cache: Path) -> str:
    """Return which disk is full, and the remedy: pip writes to its temporary folder, too."""
    free = {place: shutil.disk_usage(place).free // 2**20 for place in (cache, Path(gettempdir()))}
    places = ", ".join(f"{mebibytes:,} MiB free in {place}" for place, mebibytes in free.items())
    return f"{DISK_FULL} ({places}). Free some, or name other folders: export HARNESS_CACHE=… TMPDIR=…"


def _pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", *PIP_OPTIONS]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable]
    raise pip_missing("--with")


def pip_missing(what: str) -> MissingPart:
    """Return the error of something that needs pip, with the command that installs it."""
    return MissingPart(f"{what} needs pip: {shlex.join([sys.executable, '-m', 'ensurepip'])}")


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["pip gave no reason"]
    errors = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("error:")]
    if errors and errors[-1] == "Exception:":  # a traceback of pip, which can hold each file of a release
        problems = re.findall(r"\[Errno \d+\] [^:'\"]+", output)
        return (problems or [lines[-1][:LONGEST_ERROR]])[-1].strip()
    return (errors or lines)[-1].rstrip(".")


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - users must know what is tested


def _key(name: str, version: str, *, is_built: bool = True) -> str:
    return f"{name}-{version}-{PYTHON_TAG}" if is_built else f"{name}-{version}-sources-{PYTHON_TAG}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _digest_of_tree(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.suffix in CODE and path.is_file())
    return _digest_of("\n".join(f"{path.relative_to(folder)} {_digest(path)}" for path in files))


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
