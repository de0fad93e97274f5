"""compute-sanitizer on this machine: finds it, asks it for its options, and builds its command line.

Nothing here starts CUDA.  `sanitizer_log` and `sanitizer_records` read the tool's reports.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.errors import MissingPart, UsageError, unknown
from harness.model.compute_sanitizer_report import Tool
from harness.model.triton_sanitizer_report import Instrumentation
from harness.settings import Settings

NAME = "compute-sanitizer"
WHEEL = "nvidia-cuda-sanitizer-api"
INSTALL = f"pip install '{WHEEL}>=13.4.92'"
SELF_TEST_MAIN = "harness.workers.sanitized.self_test:main"
LIBRARY = "libsanitizer-collection"
"""The library that is mapped in a process whose kernels the tool instruments."""
VARIABLE = "KERNEL_HARNESS_SANITIZER"
"""In the environment of workers under a tool, its name: the engine then avoids what would hide mistakes from it."""
ANSWER_LIMIT_S = 60.0
SLOWDOWN = 10.0
"""The factor by which time limits grow under a tool."""

COMMON_OPTIONS: Mapping[str, str] = {
    "target-processes": "all",  # workers are grandchildren of the tool.
    "launch-timeout": "0",  # no limit for a process to start CUDA: the pool has limits of its own.
    "print-limit": "1000",  # for one case, in which a hundred lanes may repeat the same mistake.
    "show-backtrace": "device",  # host backtraces are frames of Python's evaluation loop.
    "check-exit-code": "no",  # the pool kills workers routinely.
    "require-cuda-init": "no",
}
WHOLE_COMMAND_OPTIONS: Mapping[str, str] = {
    **COMMON_OPTIONS,
    "print-limit": "100000",  # of all its launches.
    "destroy-on-device-error": "kernel",  # what follows a report keeps its CUDA context.
}
"""The options for a command that goes on after a report."""
TOOL_OPTIONS: Mapping[Tool, Mapping[str, str]] = {
    Tool.MEMCHECK: {
        "padding": "4096",  # keep tensors apart, so that overruns leave the allocation
        "report-api-errors": "no",  # torch and Triton handle calls that fail
        "check-tensor-ops": "yes",
    },
    Tool.INITCHECK: {
        "check-api-memory-access": "no",  # the harness copies results that are partly unwritten
    },
    Tool.RACECHECK: {},
    Tool.SYNCCHECK: {},
}
FILTERS = frozenset(
    (
        *("kernel-name", "kernel-name-exclude", "kernel-regex", "kernel-regex-exclude"),
        *("launch-count", "launch-skip", "suppressions"),
    )
)
"""Options that leave out kernels, launches or reports, so that a silent tool proves nothing."""
SHORT_OPTION = re.compile(r"-[a-zA-Z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """A working compute-sanitizer."""

    path: str
    version: str
    options: frozenset[str]
    """The long names of its options, without dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitizing:
    """A tool of compute-sanitizer, and the command that runs workers under it."""

    tool: Tool
    command: tuple[str, ...]
    """The executable and its options, without output files."""
    version: str
    suppressions: tuple[Suppression, ...] = ()
    self_test: str = SELF_TEST_MAIN
    """Module and function of the self-test, which runs in a child of the same fork server as workers."""
    library: str = LIBRARY
    """Part of the name of the library that is mapped in a process under the tool."""
    filtered: str = ""
    """The option that leaves out kernels or reports; empty if there is none."""

    def __str__(self) -> str:
        """Return the text that `--sanitizer` takes, without further options."""
        return self.tool

    def check(self, gpu: RealGpu) -> None:
        """Do nothing: compute-sanitizer supports every GPU that runs cases.  `Instrumenting.check` may refuse one."""


def sanitizing(
    wanted: str,
    settings: Settings,
    suppressions: tuple[Suppression, ...] = (),
    options: Mapping[str, str] = COMMON_OPTIONS,
) -> Sanitizing:
    """Parse the value of `--sanitizer`: a tool, and optionally further options of compute-sanitizer.

    `options` hold unless the user gives others.

    Raises:
        UsageError: there is no such tool or option.
        MissingPart: compute-sanitizer is not installed.
    """
    name, *further = split_words(wanted) or [""]
    if name not in list(Tool):
        raise unknown("sanitizer", name, [*Tool, *Instrumentation])
    executable = probe(find(settings))
    chosen = [option.removeprefix("--").partition("=")[0] for option in further if option.startswith("--")]
    for option in further:
        if SHORT_OPTION.match(option):
            raise UsageError(f"--sanitizer {wanted}: give {option} by its long name (see {executable.path} --help)")
    for option in chosen:
        if option not in executable.options:
            raise UsageError(f"{NAME} {executable.version} has no option --{option} (see {executable.path} --help)")
    tool = Tool(name)
    return Sanitizing(
        tool=tool,
        command=(*command(executable, tool, chosen, options), *further),
        version=executable.version,
        suppressions=suppressions,
        filtered=next((f"--{option}" for option in chosen if option in FILTERS), ""),
    )


def split_words(wanted: str) -> list[str]:
    """Split the value of `--sanitizer` like a shell.

    Raises:
        UsageError: a quotation is not closed.
    """
    try:
        return shlex.split(wanted)
    except ValueError as error:
        raise UsageError(f"--sanitizer {wanted}: {error}") from None


def find(settings: Settings) -> str:
    """Return the path of the executable.

    Raises:
        MissingPart: none is found.
    """
    return next(_candidates(settings.toolkits), "") or _missing()


@cache
def probe(path: str) -> Executable:
    """Ask the executable for its version and options.

    Raises:
        MissingPart: it does not run.
    """
    try:
        output = subprocess.run(
            [path, "--help"], capture_output=True, text=True, errors="replace", check=True, timeout=ANSWER_LIMIT_S
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingPart(f"{path} does not run ({error}): {INSTALL}") from None
    version = re.search(r"^Version (\S+)", output, re.MULTILINE)
    return Executable(
        path=path,
        version=version.group(1) if version else "unknown",
        options=frozenset(re.findall(r"--([a-z0-9][a-z0-9-]+)", output)),
    )


def command(
    executable: Executable, tool: Tool, chosen: Collection[str] = (), options: Mapping[str, str] = COMMON_OPTIONS
) -> tuple[str, ...]:
    """Return the start of the command line, without options that the release lacks or the user gives."""
    wanted = executable.options.difference(chosen)
    usual = ((name, value) for name, value in {**options, **TOOL_OPTIONS[tool]}.items() if name in wanted)
    return (executable.path, "--tool", tool, *(word for name, value in usual for word in (f"--{name}", value)))


def environment(tool: Tool) -> dict[str, str]:
    """Return the variables of processes under the tool.

    Memcheck and initcheck see the allocations that CUDA makes, so torch must not cache and divide them.
    """
    own = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if tool in (Tool.MEMCHECK, Tool.INITCHECK) else {}
    return {VARIABLE: tool, "TRITON_DISABLE_LINE_INFO": "0", **own}


def _candidates(toolkits: Iterable[Path]) -> Iterator[str]:
    """Yield the executables in order of preference."""
    if executable := shutil.which(NAME):
        yield executable
    for home in toolkits:
        yield from _executables_in(home)
    yield from _in_wheel()
    yield from _executables_in(Path("/usr/local/cuda"))


def _executables_in(home: Path) -> Iterator[str]:
    for path in (home / "bin" / NAME, home / NAME / NAME):
        if os.access(path, os.X_OK) and path.is_file():
            yield str(path)


def _in_wheel() -> Iterator[str]:
    """Yield the executable of the wheel.

    Releases before 13.4.92 lack `TreeLauncherSubreaper`, which follows a process to its children.
    """
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
    raise MissingPart(f"{NAME} is neither on PATH, nor under CUDA_HOME, nor installed as a wheel: {INSTALL}")
