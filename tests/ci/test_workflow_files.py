"""Every workflow file is valid by its system's schema, and its shell by shellcheck; actions are pinned alike."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main
from tests.ci.small_repository import small_repository
from tests.ci.workflow_shell import TEMPLATES, WORKFLOWS, buildkite_steps, document, github_steps
from tests.cli.command_line import ROOT

BIN = Path(sys.executable).parent
GITHUB = (*sorted(TEMPLATES.glob("github-*.yml")), *sorted(WORKFLOWS.glob("*.yml")))
SCRIPTS = (*sorted(TEMPLATES.glob("*.sh")), *sorted((ROOT / "ci").glob("*.sh")), ROOT / ".ci" / "run")
PIN = re.compile(r"[\w.-]+/[\w./-]+@(release/)?v\d+")
"""A major version: `release/v1` is how the action that publishes names its own."""


def run(*command: str, text: str | None = None) -> tuple[int, str]:
    done = subprocess.run([BIN / command[0], *command[1:]], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def shellcheck(script: str) -> tuple[int, str]:
    return run("shellcheck", "--shell", "bash", "-", text=script)


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_workflows_are_valid_by_the_schema_of_github(path: Path) -> None:
    status, text = run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(path))
    assert status == 0, text


@pytest.mark.parametrize(
    ("schema", "name"), [("buildkite", "buildkite.yml"), ("gitlab-ci", "gitlab.yml")], ids=["buildkite", "gitlab"]
)
def test_pipelines_are_valid_by_the_schema_of_their_system(schema: str, name: str) -> None:
    status, text = run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", str(TEMPLATES / name))
    assert status == 0, text


def test_the_schema_notices_a_wrong_workflow(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        GITHUB[0].read_text(encoding="utf-8").replace("timeout-minutes", "timeout_minutes"), encoding="utf-8"
    )
    status, text = run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(wrong))
    assert (status, "timeout_minutes" in text) == (1, True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say_about_scripts(path: Path) -> None:
    assert shellcheck(path.read_text(encoding="utf-8")) == (0, "")


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say_about_the_steps_of_workflows(path: Path) -> None:
    scripts = [step["run"] for job in document(path)["jobs"].values() for step in job["steps"] if "run" in step]
    assert [shellcheck(script) for script in scripts] == [(0, "")] * len(scripts)


def test_shellcheck_has_nothing_to_say_about_the_steps_of_buildkite() -> None:
    scripts = [step.script for step in buildkite_steps(TEMPLATES / "buildkite.yml")]
    assert [shellcheck(script) for script in scripts] == [(0, "")] * 2


def test_shellcheck_has_nothing_to_say_about_the_jobs_of_gitlab() -> None:
    jobs = [name for name, job in document(TEMPLATES / "gitlab.yml").items() if "script" in job]
    scripts = ["\n".join(document(TEMPLATES / "gitlab.yml")[name]["script"]) for name in jobs]
    assert (jobs, [shellcheck(script) for script in scripts]) == (
        ["kernels", "kernels-night", "kernels-report"],
        [(0, "")] * 3,
    )


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_major_version(path: Path) -> None:
    used = [step["uses"] for job in document(path)["jobs"].values() for step in job["steps"] if "uses" in step]
    assert [one for one in used if not PIN.fullmatch(one)] == []


def test_one_action_has_one_version_everywhere() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in GITHUB)
    pins = set(re.findall(r"uses: (\S+)@(\S+)", text))
    assert len({action for action, _ in pins}) == len(pins)


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_jobs_have_a_time_limit_and_no_more_rights_than_they_name(path: Path) -> None:
    workflow = document(path)
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    assert workflow["permissions"]["contents"] == "read"


def test_the_container_file_is_clean_by_hadolint() -> None:
    assert run("hadolint", str(TEMPLATES / "Containerfile")) == (0, "")


def test_hadolint_notices_a_wrong_container_file() -> None:
    status, text = run("hadolint", "-", text="FROM debian\nRUN cd /tmp\n")
    assert (status, "DL3006" in text) == (1, True)


@pytest.mark.parametrize(("kernel", "library"), [("mykernels/rows.py", True), ("rows.py", False)])
def test_the_workflow_of_harness_init_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, *, library: bool
) -> None:
    repository = small_repository(tmp_path / "repository", correct=True)
    monkeypatch.chdir(repository)
    shutil.copy("mykernels/rows.py", "rows.py")
    assert main(["init", kernel]) == 0
    written = Path(".github/workflows/kernel-harness.yml")
    status, text = run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(written))
    assert status == 0, text
    *scripts, _ = (step.script for step in github_steps(written, "gate", {}))
    assert [shellcheck(script) for script in scripts] == [(0, "")] * 2
    assert ('--with "$LIBRARY"' in scripts[-1]) is library


def test_this_repository_uses_the_gate() -> None:
    template, own = (document(path) for path in (TEMPLATES / "github-gate.yml", WORKFLOWS / "gate.yml"))
    assert own["jobs"] == template["jobs"]
    assert own["env"].keys() == template["env"].keys()


def steps_of(workflow: str, job: str) -> list[str]:
    return [step.get("run", "").strip() for step in document(WORKFLOWS / workflow)["jobs"][job]["steps"]]


def test_each_change_runs_lint_and_tests() -> None:
    assert document(WORKFLOWS / "tests.yml")[True] == {"pull_request": None, "push": {"branches": ["main"]}}
    assert ".ci/run" in steps_of("tests.yml", "test")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    targets = re.findall(r"^(?:exec )?make --no-print-directory (\S+)", script, re.MULTILINE)
    assert targets == ["lint", "package", "browser", "test"]


def test_a_release_publishes_after_lint_and_tests_alone() -> None:
    jobs = document(WORKFLOWS / "release.yml")["jobs"]
    publishing = [
        name for name, job in jobs.items() if any("pypi-publish" in step.get("uses", "") for step in job["steps"])
    ]
    assert publishing == ["publish"]
    assert set(jobs["publish"]["needs"]) == {"build", "test"}
    assert "if" not in jobs["publish"]
    assert ".ci/run" in steps_of("release.yml", "test")


def test_each_night_runs_every_test() -> None:
    assert "schedule" in document(WORKFLOWS / "nightly.yml")[True]
    assert "make test-all" in steps_of("nightly.yml", "test-all")


def test_the_files_that_the_package_is_checked_for_are_there() -> None:
    script = (ROOT / "ci" / "check_package.sh").read_text(encoding="utf-8")
    names = " ".join(re.findall(r"^for part in (.*); do$", script, re.MULTILINE))
    folders = {"harness_suites": "suites"}
    paths = [ROOT / folders.get(top, top) / rest for top, _, rest in (name.partition("/") for name in names.split())]
    assert paths
    assert [path for path in paths if not path.is_file()] == []
