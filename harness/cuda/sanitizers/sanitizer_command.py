"""compute-sanitizer on this machine: where it lies, what it can do, and the command line that puts a process under it.

Nothing here starts CUDA.  `sanitizer_log` and `sanitizer_records` read what the tool reports.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.cuda.sanitizers.suppressions import Suppression
from harness.errors import MissingPart, UsageError, unknown
from harness.model.compute_sanitizer_report import Tool
from harness.model.triton_sanitizer_report import Instrumentation

NAME = "compute-sanitizer"
WHEEL = "nvidia-cuda-sanitizer-api"
PROVIDE = f"pip install '{WHEEL}>=13.4.92'"
WITNESS_MAIN = "harness.workers.sanitized.self_test:main"
LIBRARY = "libsanitizer-collection"
"""What a process has mapped that the tool instruments kernels in."""
VARIABLE = "KERNEL_HARNESS_SANITIZER"
"""In the environment of workers under a tool, its name: an engine then does nothing that hides mistakes from it."""
ANSWER_LIMIT_S = 60.0
SLOWDOWN = 10.0
"""So many times as long as usual may a case take under a tool."""

EVERY_TOOL = (
    ("target-processes", "all"),  # the workers are children of children
    ("launch-timeout", "0"),  # it waits for ever for a process to start CUDA: the pool has limits of its own
    ("print-limit", "1000"),  # for one case; the first lane's mistake comes with those of a hundred others
    ("show-backtrace", "device"),  # twenty frames of Python's evaluation loop at each record tell nothing
    ("check-exit-code", "no"),  # workers are killed as a matter of course
    ("require-cuda-init", "no"),
)
ONE_TOOL = {
    Tool.MEMCHECK: (
        ("padding", "4096"),  # the end of one tensor is not the beginning of another
        ("report-api-errors", "no"),  # torch and Triton try calls that may fail, and see to it themselves
        ("check-tensor-ops", "yes"),
    ),
    Tool.INITCHECK: (
        ("check-api-memory-access", "no"),  # copying a result that is not wholly written is the harness's doing
    ),
    Tool.RACECHECK: (),
    Tool.SYNCCHECK: (),
}
FILTERS = frozenset(
    (
        *("kernel-name", "kernel-name-exclude", "kernel-regex", "kernel-regex-exclude"),
        *("launch-count", "launch-skip", "suppressions"),
    )
)
"""Options that leave out kernels, launches or reports: what they hide may be the case's."""
SHORT = re.compile(r"-[a-zA-Z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """A compute-sanitizer that runs here."""

    path: str
    version: str
    options: frozenset[str]
    """Long names, without dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitizing:
    """How worker processes are put under a tool."""

    tool: Tool
    command: tuple[str, ...]
    """The executable and its options, without the files that it writes."""
    version: str
    suppressions: tuple[Suppression, ...] = ()
    witness: str = WITNESS_MAIN
    """Module and function that makes a mistake on purpose in a child of the same fork server, as a worker is."""
    library: str = LIBRARY
    """Part of the name of what a watched process has mapped."""
    filtered: str = ""
    """The option by which it may leave out kernels or reports; empty where it has none such."""

    def __str__(self) -> str:
        """As `--sanitizer` takes it, without further options."""
        return self.tool


def sanitizing(wanted: str, suppressions: tuple[Suppression, ...] = ()) -> Sanitizing:
    """What `--sanitizer` asks for: a tool, and perhaps further options of compute-sanitizer behind it.

    Raises:
        UsageError: there is no such tool or option.
        MissingPart: compute-sanitizer is not here.
    """
    name, *further = words(wanted) or [""]
    if name not in list(Tool):
        raise unknown("sanitizer", name, [*Tool, *Instrumentation])
    executable = ask(find())
    given = [option.removeprefix("--").partition("=")[0] for option in further if option.startswith("--")]
    for option in further:
        if SHORT.match(option):
            raise UsageError(f"--sanitizer {wanted}: give {option} by its long name (see {executable.path} --help)")
    for option in given:
        if option not in executable.options:
            raise UsageError(f"{NAME} {executable.version} has no option --{option} (see {executable.path} --help)")
    tool = Tool(name)
    return Sanitizing(
        tool=tool,
        command=(*command(executable, tool, given), *further),
        version=executable.version,
        suppressions=suppressions,
        filtered=next((f"--{option}" for option in given if option in FILTERS), ""),
    )


def words(wanted: str) -> list[str]:
    """What `--sanitizer` was given, as a shell would part it.

    Raises:
        UsageError: a quotation does not end.
    """
    try:
        return shlex.split(wanted)
    except ValueError as error:
        raise UsageError(f"--sanitizer {wanted}: {error}") from None


def find() -> str:
    """The path of the executable.

    Raises:
        MissingPart: there is none.
    """
    return next(_places(), "") or _missing()


@cache
def ask(path: str) -> Executable:
    """What this executable is and knows.

    Raises:
        MissingPart: it does not run.
    """
    try:
        told = subprocess.run(
            [path, "--help"], capture_output=True, text=True, errors="replace", check=True, timeout=ANSWER_LIMIT_S
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingPart(f"{path} does not run ({error}): {PROVIDE}") from None
    version = re.search(r"^Version (\S+)", told, re.MULTILINE)
    return Executable(
        path=path,
        version=version.group(1) if version else "unknown",
        options=frozenset(re.findall(r"--([a-z0-9][a-z0-9-]+)", told)),
    )


def command(executable: Executable, tool: Tool, given: Collection[str] = ()) -> tuple[str, ...]:
    """The beginning of the command line; options that this release does not know, or that are given, are left out."""
    wanted = executable.options.difference(given)
    known = [(name, value) for name, value in (*EVERY_TOOL, *ONE_TOOL[tool]) if name in wanted]
    return (executable.path, "--tool", tool, *(word for name, value in known for word in (f"--{name}", value)))


def environment(tool: Tool) -> dict[str, str]:
    """What processes under the tool need beside it.

    Memcheck and initcheck know allocations by the calls to CUDA that made them: torch must hand out none of its own.
    """
    own = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if tool in (Tool.MEMCHECK, Tool.INITCHECK) else {}
    return {VARIABLE: tool, "TRITON_DISABLE_LINE_INFO": "0", **own}


def _places() -> Iterator[str]:
    """In the order in which they are tried."""
    if found := shutil.which(NAME):
        yield found
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield from _executable(Path(home))
    yield from _in_wheel()
    yield from _executable(Path("/usr/local/cuda"))


def _executable(home: Path) -> Iterator[str]:
    for path in (home / "bin" / NAME, home / NAME / NAME):
        if os.access(path, os.X_OK) and path.is_file():
            yield str(path)


def _in_wheel() -> Iterator[str]:
    """Releases before 13.4.92 lack what follows a process to its children, and cannot be used for workers."""
    try:
        files = distribution(WHEEL).files or ()
    except PackageNotFoundError:
        return
    if any(file.name == "TreeLauncherSubreaper" for file in files):
        paths = (
            Path(str(file.locate())).resolve() for file in files if file.name == NAME and file.parent.name == "bin"
        )
        yield from (str(path) for path in paths if os.access(path, os.X_OK))


def _missing() -> str:
    raise MissingPart(f"{NAME} is neither on PATH, nor under CUDA_HOME, nor installed as a wheel: {PROVIDE}")
