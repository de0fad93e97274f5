"""What `harness init` adds to a repository: which files it writes or changes, planned before anything is written."""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.drafts.called_draft import draft_of_calls
from harness.drafts.ci_files import FILES, GATE, WORKFLOW, CiSettings, CiSystem, is_shared, text_of
from harness.drafts.seen_calls import SeenTest
from harness.drafts.signatures import SourceFile, read_source
from harness.drafts.suite_draft import TestedModule, draft_of
from harness.drafts.suite_text import SuiteText
from harness.errors import UsageError, store_error
from harness.model.engine_traits import CUDA, VIRTUAL
from harness.project_settings import NIGHT, OWN_FILE, ProjectSettings, read_project_settings, read_table
from harness.search import USUAL_DEVICE

SUITES = "suites"
SETTINGS = "pyproject.toml"
TABLE = "kernel-harness"
"""The table of `tool` that holds the settings."""
NIGHT_MINUTES = 105
"""Of a drafted night: a quarter of an hour less than the jobs of the templates may take."""
SKIPPED = re.compile(r"^(\.|_|build$|dist$|docs?$|node_modules$|site-packages$|suites$|tests?$|venv)")
"""Folders without kernels of the project's own."""
MOST_SEARCHED = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file as it is to be."""

    path: Path
    """Relative to the repository."""
    text: str
    before: str | None
    """What it holds now; None if there is no such file."""
    note: str = ""
    """What a person does with it."""

    @property
    def is_changed(self) -> bool:
        return self.text != self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class InitPlan:
    """All files, and the suites among them."""

    files: tuple[PlannedFile, ...]
    suites: tuple[tuple[Path, SuiteText], ...]
    calls: int = 0
    """How many calls of a test they are made from."""
    libraries: tuple[str, ...] = ()
    """What `harness fuzz` needs for the suites, as given to `--with`."""


def plan(root: Path, targets: Iterable[str], *, has_workflow: bool) -> InitPlan:
    """Plan the files for a repository.  `targets` are files or dotted modules, perhaps with `:function`.

    Without any, all files with kernels are drafted.

    Raises:
        UsageError: a target does not exist or defines nothing to test, or no file of the repository has a kernel.
    """
    sources = [_target(root, target) for target in targets] or _found(root)
    modules = [_module(root, source) for source in sources]
    suites: list[tuple[Path, SuiteText]] = []
    planned: list[PlannedFile] = []
    for module in modules:
        path = Path(SUITES, f"{module.name.rpartition('.')[2]}.py")
        if any(path == other for other, _ in suites):
            path = Path(SUITES, f"{module.name.replace('.', '_')}.py")
        draft = draft_of(module, path.as_posix())
        suites.append((path, draft))
        planned.append(_planned(root, path, str(draft), note=_suite_note(draft)))
    planned.append(_settings(root, modules))
    if has_workflow:
        packaged = any(not module.beside for module in modules)
        planned.append(_planned(root, WORKFLOW, text_of(GATE, CiSettings(has_library=packaged))))
    return InitPlan(files=tuple(planned), suites=tuple(suites))


def plan_from_test(root: Path, seen: SeenTest, output: Path | None) -> InitPlan:
    """Plan the suite of what a test called.  Without `output` it has the name of the test.

    Raises:
        UsageError: a suite can call nothing of it.
    """
    name = re.sub(r"\W", "_", seen.test.rpartition("::")[2].removesuffix(".py")).removeprefix("test_")
    path = output or Path(SUITES, f"{name}.py")
    draft = draft_of_calls(seen, Path(seen.test.partition("::")[0]).resolve(), path)
    file = _planned(root, path, str(draft), note=_suite_note(draft))
    return InitPlan(files=(file,), suites=((path, draft),), calls=len(seen.calls), libraries=seen.libraries)


def plan_ci(root: Path, system: CiSystem, machines: int | None) -> InitPlan:
    """Plan the files of a CI system, and what its nights search.  As many machines as `machines` says share a night.

    Raises:
        UsageError: no file of this system says by how many.
    """
    if machines is not None and not is_shared(system):
        raise UsageError(f"--machines does not go with --ci {system}: its files say how many nodes there are")
    project = read_project_settings(root)
    settings = CiSettings(
        has_library=str(root) in project.libraries or (not project.libraries and _is_package(root)),
        devices=project.device,
        machines=machines,
    )
    files = [_planned(root, file.path, text_of(file.template, settings), file.note) for file in FILES[system]]
    if is_shared(system) and NIGHT not in read_table(root).values:
        files.append(_night_settings(root, project, has_library=settings.has_library))
    return InitPlan(files=tuple(files), suites=())


def write(root: Path, planned: InitPlan) -> None:
    """Write the files that differ.

    Raises:
        StoreError: one cannot be written.
    """
    for file in planned.files:
        if file.is_changed:
            path = root / file.path
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file.text, encoding="utf-8")
            except OSError as error:
                raise store_error(error, path) from None


def overwritten(planned: InitPlan) -> tuple[Path, ...]:
    """Return the files that exist and would be replaced.  Settings are added to a file, not replaced."""
    return tuple(
        file.path
        for file in planned.files
        if file.before is not None and file.is_changed and not file.text.startswith(file.before.rstrip())
    )


# --- sources ---------------------------------------------------------------------------------------------------------


def _target(root: Path, target: str) -> SourceFile:
    target, _, function = target.partition(":")
    path = root / target
    if path.suffix != ".py":
        inside = Path(*target.split("."))
        candidates = [base / inside for base in (root, root / "src")]
        files_of = [file for base in candidates for file in (base.with_suffix(".py"), base / "__init__.py")]
        path = next((file for file in files_of if file.is_file()), path)
    if not path.is_file():
        raise UsageError(f"there is no {target}: name a Python file of this repository, or a module as my_kernels.norm")
    source = read_source(path).only(function) if function else read_source(path)
    if not source.subjects:
        raise UsageError(f"{target} defines neither a kernel nor a public function")
    return source


def _found(root: Path) -> list[SourceFile]:
    """Return the files of the repository that define kernels."""
    read = [read_source(path) for path in _python_files(root) if _mentions_kernels(path)]
    sources = [source for source in read if source.kernels]
    if not sources:
        raise UsageError(
            "no file here defines a kernel by @triton.jit: name a file, as harness init my_kernels/norm.py"
        )
    return sources


def _python_files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not SKIPPED.match(name))
        for name in sorted(names):
            if name.endswith(".py") and not name.startswith(("test_", "conftest")):
                count += 1
                if count > MOST_SEARCHED:
                    return
                yield Path(folder, name)


def _mentions_kernels(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "triton" in text and re.search(r"^@.*\bjit\b", text, re.MULTILINE) is not None


def _module(root: Path, source: SourceFile) -> TestedModule:
    """Return how suites reach a file: a module of a package by its name, a file that stands alone by its path."""
    top = source.path.parent
    while (top / "__init__.py").is_file() and top != root:
        top = top.parent
    inside = source.path.relative_to(top).with_suffix("")
    parts = inside.parts[:-1] if inside.name == "__init__" else inside.parts
    is_alone = top == source.path.parent
    beside = Path(os.path.relpath(source.path, root / SUITES)).as_posix() if is_alone else ""
    return TestedModule(source=source, name=".".join(parts), beside=beside)


# --- files -----------------------------------------------------------------------------------------------------------


def _planned(root: Path, path: Path, text: str, note: str = "") -> PlannedFile:
    return PlannedFile(path=path, text=text, before=_content(root / path), note=note)


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _suite_note(draft: SuiteText) -> str:
    if not draft.undefined:
        return "check what is marked as guessed"
    return f"write the definition of {', '.join(f'{name} (line {line})' for name, line in draft.undefined)}"


def _settings(root: Path, modules: Iterable[TestedModule]) -> PlannedFile:
    """Return `pyproject.toml` with a table of settings at its end; all that stands there stays as it is."""
    before = _content(root / SETTINGS)
    text = before or ""
    try:
        tool = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{SETTINGS}: {error}") from None
    if TABLE in tool:
        return PlannedFile(path=Path(SETTINGS), text=text, before=before)
    packaged = any(not module.beside for module in modules)
    lines = [
        f"[tool.{TABLE}]",
        f'device = "{USUAL_DEVICE}"  # the GPU to emulate, or several by commas; `harness devices` lists them',
    ]
    if packaged:
        lines.append('with = ["."]  # the library under test, as for `--with`')
    added = "\n".join(lines) + "\n"
    return PlannedFile(
        path=Path(SETTINGS), text=f"{text.rstrip()}\n\n{added}" if text.strip() else added, before=before
    )


def _night_settings(root: Path, project: ProjectSettings, *, has_library: bool) -> PlannedFile:
    """Return the project's settings with a night on GPUs at their end; all that stands there stays as it is."""
    path, table = (OWN_FILE, NIGHT) if (root / OWN_FILE).is_file() else (SETTINGS, f"tool.{TABLE}.{NIGHT}")
    before = _content(root / path)
    lines = [
        f"[{table}]  # what `harness night` searches",
        f"minutes = {NIGHT_MINUTES}  # less than the time limit of the CI job",
        "",
        f"[[{table}.search]]",
        f'suites = ["{SUITES}"]',
    ]
    if has_library and not project.libraries:
        lines.append('releases = ["."]  # the checkout; also a release, a wheel, or a URL of git')
    lines.append(f'engine = "{CUDA}"  # the GPUs of the machine; "{VIRTUAL}" emulates GPUs')
    text = f"{(before or '').rstrip()}\n\n".lstrip() + "\n".join(lines) + "\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path}: write the table {table} there yourself: at the end it is an error ({error})"
        ) from None
    return PlannedFile(path=Path(path), text=text, before=before, note="set what a night searches")


def _is_package(root: Path) -> bool:
    """Return True if the repository can be installed."""
    settings = _content(root / SETTINGS) or ""
    return (root / "setup.py").is_file() or bool({"project", "build-system"} & tomllib.loads(settings).keys())
