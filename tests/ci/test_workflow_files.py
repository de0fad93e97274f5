"""Every workflow file is valid by its system's schema, and its shell by shellcheck; actions are pinned alike.

zizmor looks for what an attacker could use.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import __version__
from harness.cli import main
from harness.documents.files import dumps
from harness.drafts.repository import NIGHT_MINUTES
from tests.ci.small_repository import small_repository
from tests.ci.workflow_shell import TEMPLATES, WORKFLOWS, buildkite_steps, document, github_steps
from tests.cli.command_line import ROOT
from tests.night.nights import CONFIRMED, Nights
from tests.reports.samples import REPORT

ABSENT = ("torch", "triton", "numpy", "llvmlite", "greenlet")
BIN = Path(sys.executable).parent
GITHUB = (*sorted(TEMPLATES.glob("github-*.yml")), *sorted(WORKFLOWS.glob("*.yml")))
SCRIPTS = (*sorted(TEMPLATES.glob("*.sh")), *sorted((ROOT / "ci").glob("*.sh")), ROOT / ".ci" / "run")
PIN = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
"""A commit, which nobody can move, and the release that it is."""


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
def test_actions_are_pinned_by_commit_and_named_by_release(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert [one for one in used if not PIN.fullmatch(one)] == []


def test_zizmor_finds_nothing_that_an_attacker_could_use() -> None:
    status, text = run("zizmor", "--offline", "--no-progress", *map(str, GITHUB))
    assert status == 0, text


def test_zizmor_notices_an_action_by_its_tag(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(re.sub(r"checkout@\S+", "checkout@v6", GITHUB[0].read_text(encoding="utf-8")), encoding="utf-8")
    status, text = run("zizmor", "--offline", "--no-progress", "--min-severity", "high", str(wrong))
    assert (status, "unpinned-uses" in text) == (14, True)


def test_one_action_has_one_version_everywhere() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in GITHUB)
    pins = set(re.findall(r"uses: (\S+)@(\S+)", text))
    assert len({action for action, _ in pins}) == len(pins)


def test_searches_end_before_their_job_and_their_findings_are_kept() -> None:
    gate, night = (document(TEMPLATES / f"github-{name}.yml") for name in ("gate", "nightly"))
    pipelines = document(TEMPLATES / "gitlab.yml")
    agents = document(TEMPLATES / "buildkite.yml")
    array = (TEMPLATES / "slurm-array.sh").read_text(encoding="utf-8")
    limits = {
        "gate": (gate["env"]["MINUTES"], gate["jobs"]["gate"]["timeout-minutes"]),
        "night": (NIGHT_MINUTES, night["jobs"]["search"]["timeout-minutes"]),
        "change": (pipelines["kernels"]["variables"]["MINUTES"], 45),
        "schedule": (NIGHT_MINUTES, 120 if pipelines["kernels-night"]["timeout"] == "2 hours" else 0),
        "agent": (NIGHT_MINUTES, agents["steps"][0]["timeout_in_minutes"]),
        "task": (NIGHT_MINUTES, 120 if "#SBATCH --time=02:00:00\n" in array else 0),
    }
    assert {name: limit - int(minutes) for name, (minutes, limit) in limits.items()} == {
        "gate": 10,
        "night": 15,
        "change": 10,
        "schedule": 15,
        "agent": 15,
        "task": 15,
    }
    uploads = [
        step
        for job in (gate["jobs"]["gate"], night["jobs"]["search"], night["jobs"]["merge"])
        for step in job["steps"]
        if "upload-artifact" in step.get("uses", "")
    ]
    assert all(step["if"] == "${{ always() }}" for step in uploads)
    kept = [step["with"]["path"].split() for step in uploads]
    assert [{".harness/findings", "nights"} & {*paths} for paths in kept] == [{".harness/findings"}, *[{"nights"}] * 2]
    assert [step["artifact_paths"].rpartition(";")[2] for step in agents["steps"]] == [
        "shard-*.tar.gz",
        "nights.tar.gz",
    ]
    jobs = {name: job["artifacts"] for name, job in pipelines.items() if "script" in job}
    assert {name: (artifacts["paths"][-1], artifacts["when"]) for name, artifacts in jobs.items()} == {
        "kernels": (".harness/findings", "always"),
        "kernels-night": ("shards", "always"),
        "kernels-report": ("nights", "always"),
    }


def test_nights_go_on_from_a_cache_that_the_merge_alone_writes() -> None:
    jobs = document(TEMPLATES / "github-nightly.yml")["jobs"]
    caches = {
        name: [
            (step["uses"].rpartition("@")[0], step["with"])
            for step in job["steps"]
            if step.get("uses", "").startswith("actions/cache")
        ]
        for name, job in jobs.items()
    }
    key = {"path": "nights", "key": "kernels-nights-${{ github.run_id }}-${{ github.run_attempt }}"}
    restored = ("actions/cache/restore", {**key, "restore-keys": "kernels-nights-"})
    assert caches == {"search": [restored], "merge": [restored, ("actions/cache/save", key)], "publish": []}
    pipelines = document(TEMPLATES / "gitlab.yml")
    (_, search), (_, merge) = (pipelines[name]["cache"] for name in ("kernels-night", "kernels-report"))
    assert search == {"key": "kernel-harness-nights", "paths": ["nights"], "policy": "pull"}
    assert merge == {"key": "kernel-harness-nights", "paths": ["nights"], "when": "always"}


def test_a_written_file_pins_harness_torch_and_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_repository(tmp_path / "repository", correct=True))
    for system in ("github", "gitlab", "buildkite", "ray", "container"):
        assert main(["init", "--ci", system]) == 0
    written = [
        path for path in Path().rglob("*") if path.is_file() and "kernel-harness" in path.read_text("utf-8", "replace")
    ]
    lines = [line for path in written for line in path.read_text("utf-8").splitlines() if line[0:1] != "#"]
    named = [line for line in lines if re.search(r"HARNESS[:=]|pip' install|pip install '", line)]
    assert len(named) >= 9
    assert [line for line in named if f"=={__version__}" not in line] == []
    torch = {line.partition("#")[0].strip() for line in lines if "TORCH:" in line}
    assert torch == {"TORCH: torch==2.13.0 triton==3.6.0", "TORCH: torch==2.11.0 triton==3.6.0"}


def test_merge_report_and_morning_need_neither_torch_nor_triton(tmp_path: Path) -> None:
    needs = document(TEMPLATES / "github-nightly.yml")["jobs"]["merge"]["env"]["NEEDS"].split()
    small_repository(tmp_path, correct=True)
    Nights(folder=tmp_path / "shards" / "1").run("7", sees=CONFIRMED)
    (tmp_path / "campaign.json").write_text(dumps(REPORT), encoding="utf-8")
    program = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from harness import __version__
from harness.cli import main
from harness.documents.files import dumps
statuses = [main(["report", "campaign.json", "-o", "report.html", "--markdown", "report.md", "--junit", "junit.xml"])]
statuses += [main(["report", "--merge", "campaign.json", "--json", "merged.json"])]
statuses += [main(["morning", "nights", "shards/1", "-o", "morning", "--markdown", "morning.md", "--json", "one.json"])]
print([*map(int, statuses)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["[0, 1, 0]"], done.stdout + done.stderr
    assert all((tmp_path / name).is_file() for name in ("report.html", "morning/index.html"))
    assert {"torch", "triton", "numpy", "llvmlite", "greenlet"}.isdisjoint(needs)


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
    for event, command in (("pull_request", "harness gate"), ("push", "harness fuzz")):
        _, script, *_ = (step.script for step in github_steps(written, "gate", {"github.event_name": event}))
        assert shellcheck(script) == (0, "")
        assert command in script
        assert ('--with "$LIBRARY"' in script) is library


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
