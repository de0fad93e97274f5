"""What a recorded case may run: code of this project and of the package, and what the user has run here before.

A file of somebody else names suites, libraries and environment variables.  Each of them decides which code runs.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from harness.errors import UsageError
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import import_paths, op_of, project_with_suite
from harness.findings.store import nearest
from harness.libraries import is_of_index, of_project
from harness.model.case import HARNESS_FOLDER
from harness.suite_files import located, project_of, shipped_suites

TRUSTED = HARNESS_FOLDER / "trusted.txt"
"""In the root of the project, a line for each suite, library and variable that searches here got from the user."""


def remember(
    suites: Iterable[str], libraries: Iterable[str], variables: Iterable[tuple[str, Iterable[str]]] = ()
) -> None:
    """Trust what the user has named, as in `--with ../library`, when its findings are replayed in this project."""
    project = project_of(Path.cwd())
    named = [
        *_outside(suites, libraries, project),
        *(f"{name}={value}" for name, values in variables for value in values),
    ]
    if new := [entry for entry in dict.fromkeys(named) if entry not in _trusted()]:
        file = project / TRUSTED
        with suppress(OSError):  # then --trust is needed
            if not file.parent.is_dir():
                file.parent.mkdir(parents=True)
                (file.parent / ".gitignore").write_text("*\n", encoding="utf-8")
            with file.open("a", encoding="utf-8") as opened:
                opened.writelines(f"{entry}\n" for entry in new)


def refuse_foreign_code(recorded: Recorded, libraries: Iterable[str], *, trusted: bool) -> None:
    """Raise if a replay would run code from outside the project, unless it is `trusted`.

    Args:
        recorded: the case of a file.
        libraries: what the user names in place of the recorded libraries.
        trusted: True if the user has said so.

    Raises:
        UsageError: it would; the text names the code.
        HarnessError: the suite cannot be loaded.
    """
    if trusted:
        return
    project = project_with_suite(recorded)
    cases = (recorded.case, *((recorded.preceding_case,) if recorded.preceding_case else ()))
    suites = (case.op.rpartition(":")[0] for case in cases)
    specs = () if tuple(libraries) else tuple(of_project(spec, project) for spec in recorded.libraries)
    folders = import_paths(recorded, project)
    foreign = [code for code in _outside(suites, (*specs, *folders), project) if code not in _trusted()]
    if not foreign:
        declared = op_of(recorded).environment
        set_by_cases = dict.fromkeys(variable for case in cases for variable in case.environment)
        pairs = [f"{name}={value}" for name, value in set_by_cases if value not in declared.get(name, ())]
        foreign = [pair for pair in pairs if pair not in _trusted()]
    if foreign:
        raise UsageError(
            f"{recorded.id} runs code from outside this project by {', '.join(foreign)}: read it, and then add --trust"
        )


def _outside(suites: Iterable[str], libraries: Iterable[str], project: Path) -> Iterator[str]:
    """Yield the suites and libraries that are neither in the project nor in the package."""
    roots = _projects()
    for suite in suites:
        path = located(suite, project).resolve()
        if not any(path.is_relative_to(root) for root in (*roots, shipped_suites().resolve())):
            yield str(path)
    for spec in libraries:
        path = Path(spec).expanduser().resolve()
        if not is_of_index(spec) and not any(path.is_relative_to(root) for root in roots):
            yield spec


def _projects() -> tuple[Path, ...]:
    """Return the project of the working folder, and the folder of its store of findings, which may be above."""
    return project_of(Path.cwd()).resolve(), nearest().resolve().parents[1]


def _trusted() -> frozenset[str]:
    entries: set[str] = set()
    for project in _projects():
        with suppress(OSError, UnicodeDecodeError):
            entries.update((project / TRUSTED).read_text(encoding="utf-8").splitlines())
    return frozenset(entries)
