"""The shell of workflow files, as the CI systems read it, and bash to run it with the `harness` of this environment."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.drafts.ci_files import CI_TEMPLATES
from tests.cli.command_line import ROOT

TEMPLATES = CI_TEMPLATES
WORKFLOWS = ROOT / ".github" / "workflows"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
LIMIT_S = 600.0
BASH = shutil.which("bash") or "/bin/bash"
ALWAYS = "always()"
NOTHING_NEW = {"HARNESS": "pip", "TORCH": "", "NEEDS": "pip"}
SMALL = {"ENGINE": "virtual", **NOTHING_NEW}
"""No GPU, and nothing to download: pip is installed already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellStep:
    """One step of a job that runs commands."""

    name: str
    script: str
    variables: Mapping[str, str]
    """Those that the file sets."""
    after_failure: bool = False
    """True if it runs although an earlier step failed."""


def document(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def github_steps(path: Path, job: str, expressions: Mapping[str, str]) -> Iterator[ShellStep]:
    """Yield the `run` steps of a job.  `expressions` has the values of `${{ … }}` in variables and conditions."""
    workflow = document(path)
    jobs = workflow["jobs"]
    for step in jobs[job]["steps"]:
        conditions = EXPRESSION.sub(r"\1", str(step.get("if", ALWAYS))).split(" && ")
        if "run" not in step or not all(_holds(condition, expressions) for condition in conditions):
            continue
        assert not EXPRESSION.search(step["run"]), "an expression inside a script lets its value run as shell"
        variables = {**workflow.get("env", {}), **jobs[job].get("env", {}), **step.get("env", {})}
        yield ShellStep(
            name=step["name"],
            script=step["run"],
            variables={
                name: EXPRESSION.sub(lambda found: expressions[found[1]], str(value))
                for name, value in variables.items()
            },
            after_failure=ALWAYS in str(step.get("if", "")),
        )


def _holds(condition: str, expressions: Mapping[str, str]) -> bool:
    if condition == ALWAYS:
        return True
    name, operator, value = condition.split()
    return (expressions[name] == value.strip("'")) is {"==": True, "!=": False}[operator]


def buildkite_steps(path: Path) -> Iterator[ShellStep]:
    """Yield the command steps of a pipeline, after Buildkite has read it: `$$` is a `$`."""
    pipeline = document(path)
    for step in pipeline["steps"]:
        script = step["command"]
        assert not re.search(r"(?<!\$)\$(\$\$)*(?!\$)", script), "Buildkite would replace it"
        variables = {**pipeline["env"], **step.get("env", {})}
        yield ShellStep(name=step["label"], script=script.replace("$$", "$"), variables=variables)


def gitlab_steps(path: Path, job: str) -> Iterator[ShellStep]:
    """Yield the script of a job as one step, with what it has of the job that it extends."""
    jobs = document(path)
    extended, own = jobs[jobs[job]["extends"]], jobs[job]
    variables = {**extended["variables"], **own.get("variables", {})}
    assert all(isinstance(value, str) for value in variables.values())
    yield ShellStep(
        name=job,
        script="\n".join((*own.get("before_script", extended["before_script"]), *own["script"])),
        variables=variables,
    )


@dataclass(kw_only=True)
class Shell:
    """A machine of a CI system: a checkout, and the variables of its jobs."""

    folder: Path
    variables: dict[str, str]
    """Set by the system; they win over those of the file."""
    programs: Path | None = None
    """A folder of programs that the system has."""
    printed: list[str] = field(default_factory=list[str])

    def run(self, steps: Iterator[ShellStep]) -> dict[str, int]:
        """Run the steps as one job.  Returns the exit status of each that ran."""
        statuses: dict[str, int] = {}
        for step in steps:
            if step.after_failure or not any(statuses.values()):
                statuses[step.name] = self._run(step)
        return statuses

    def _run(self, step: ShellStep) -> int:
        done = subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", step.script],
            cwd=self.folder,
            env=self._environment(step),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        self.printed += [done.stdout, done.stderr]
        return done.returncode

    def _environment(self, step: ShellStep) -> dict[str, str]:
        added = Path(self.variables.get("GITHUB_PATH", os.devnull)).read_text(encoding="utf-8").splitlines()
        programs = (str(self.programs),) if self.programs else ()
        path = ":".join((*added, *programs, str(Path(sys.executable).parent), os.environ["PATH"]))
        return {**os.environ, **step.variables, **self.variables, "PATH": path, "PIP_NO_INDEX": "1"}


def github(repository: Path, folder: Path, **variables: str) -> Shell:
    """Return a runner of GitHub."""
    files_of_runner = {name: folder / name.lower() for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
    folder.mkdir(parents=True, exist_ok=True)
    for file in files_of_runner.values():
        file.touch()
    system = {"RUNNER_TEMP": str(folder), **{name: str(file) for name, file in files_of_runner.items()}}
    return Shell(folder=repository, variables={**SMALL, **system, **variables})
