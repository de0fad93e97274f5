"""The shell of each template does what it says: it runs here, with the real harness, on a small repository."""

import json
import shutil
from pathlib import Path

import pytest

from harness import __version__
from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.gate_report import GateReport
from harness.night import night_memory
from tests.ci.small_repository import small_repository
from tests.ci.workflow_shell import (
    NOTHING_NEW,
    SMALL,
    TEMPLATES,
    WORKFLOWS,
    Shell,
    ShellStep,
    buildkite_steps,
    document,
    github,
    github_steps,
    gitlab_steps,
)
from tests.cli.command_line import ROOT
from tests.findings.bisection.test_worktrees import Git
from tests.gate import small_library
from tests.gate.small_library import MASKED, UNMASKED

pytestmark = pytest.mark.slow

PUSH = {"github.event_name": "push"}
BASE = {"GITHUB_BASE_REF": "main", "GITHUB_ACTIONS": "true"}
NIGHT = """\
device = "b200,h200"
with = ["."]

[night]
cases = 16
block = 8
"""

GATE = TEMPLATES / "github-gate.yml"
NIGHTLY, BUILDKITE = TEMPLATES / "github-nightly.yml", TEMPLATES / "buildkite.yml"
GITLAB = TEMPLATES / "gitlab.yml"
AGENT = """\
#!/usr/bin/env bash
case $1 in
    artifact) cp "$ARTIFACTS"/$3 "$4" ;;
    annotate) cat > "$ARTIFACTS/annotation.md" ;;
esac
"""
"""What Buildkite's agent does with artifacts and annotations, in a folder of this machine."""


@pytest.mark.parametrize(
    "status", [pytest.param(0, id="correct", marks=pytest.mark.nightly), pytest.param(1, id="wrong")]
)
def test_a_push_on_github_fails_for_an_error_and_reports_it(tmp_path: Path, status: int) -> None:
    correct = status == 0
    repository = small_repository(tmp_path / "repository", correct=correct)
    runner = github(repository, tmp_path / "runner", DEVICES="b200", CASES="4")
    done = runner.run(github_steps(GATE, "gate", PUSH))
    assert done == {"Install": 0, "Search": status, "Report": 0}, runner.printed
    report = files.read(repository / "fuzz.json", CampaignReport)
    assert bool(report.findings) is not correct
    summary = (tmp_path / "runner" / "github_step_summary").read_text(encoding="utf-8")
    assert summary.startswith(
        "### kernel-harness: no findings" if correct else "### kernel-harness: 1 finding: 1 error"
    )
    assert all((repository / name).is_file() for name in ("report.html", "junit.xml", "kernels.sarif"))


@pytest.mark.parametrize(
    ("edited", "status", "verdict"),
    [
        pytest.param((MASKED, UNMASKED), 1, "failed: 1 finding that origin/main", id="bug", marks=pytest.mark.nightly),
        pytest.param(("Doubles numbers.", "Doubles."), 0, "passed: nothing that an op reaches", id="comment"),
    ],
)
def test_a_pull_request_on_github_fails_for_what_its_base_does_not_show(
    tmp_path: Path, edited: tuple[str, str], status: int, verdict: str
) -> None:
    checkout = pull_request(tmp_path, *edited)
    runner = github(checkout.folder, tmp_path / "runner", DEVICES="b200", CASES="12", **BASE)
    done = runner.run(github_steps(GATE, "gate", {"github.event_name": "pull_request"}))
    assert done == {"Install": 0, "Gate": status}, runner.printed
    summary = (tmp_path / "runner" / "github_step_summary").read_text(encoding="utf-8")
    assert verdict in summary.splitlines()[0]
    report = files.read(checkout.folder / "gate.json", GateReport)
    assert len(report.findings) == status
    assert (checkout.folder / "kernels.sarif").is_file()
    assert len([*checkout.folder.glob("reproducers/*.py")]) == status
    assert ("::error file=small/doubling.py" in "".join(runner.printed)) is bool(status)


@pytest.mark.parametrize(("tag", "status"), [(f"v{__version__}", 0), ("v0.0.0", 1)], ids=["same", "another"])
def test_a_release_has_the_version_of_its_tag(tmp_path: Path, tag: str, status: int) -> None:
    section = f"# Changes\n\n## {__version__}\n"
    (tmp_path / "CHANGELOG.md").write_text(section, encoding="utf-8")
    first, *_ = github_steps(WORKFLOWS / "release.yml", "build", {})
    runner = github(tmp_path, tmp_path, GITHUB_REF_NAME=tag, PYTHONPATH=str(ROOT))
    assert runner.run(iter([first])) == {first.name: status}, runner.printed


@pytest.mark.nightly
def test_a_night_on_github_merges_the_shards_of_its_runners(tmp_path: Path) -> None:
    merging = repository_with_nights(tmp_path / "merging", correct=False)
    for number in (1, 2):
        repository = repository_with_nights(tmp_path / f"runner-{number}" / "repository", correct=False)
        expressions = {"matrix.gpu": "h100", "matrix.shard": f"{number}/2", "github.run_number": "7"}
        runner = github(repository, tmp_path / f"home-{number}")
        done = runner.run(github_steps(NIGHTLY, "search", expressions))
        assert done == {"Install": 0, "Look at the GPU": 0, "Search": 1}, runner.printed  # a new error
        shutil.copytree(repository / "nights", merging / "shards" / f"shard-h100-{number - 1}")
    runner = github(merging, tmp_path / "home")
    done = runner.run(github_steps(NIGHTLY, "merge", {"github.run_number": "7"}))
    assert done == {"Install": 0, "Report": 0}, runner.printed
    assert_morning_of(2, merging, merging / "nights")
    summary = (tmp_path / "home" / "github_step_summary").read_text(encoding="utf-8")
    assert summary.startswith("### night 7: 1 new\n")


def test_the_matrix_of_a_night_has_every_shard() -> None:
    shards = document(NIGHTLY)["jobs"]["search"]["strategy"]["matrix"]["shard"]
    assert shards == [f"{number}/{len(shards)}" for number in range(1, len(shards) + 1)]


@pytest.mark.nightly
@pytest.mark.parametrize("numbers", [pytest.param((0, 1), id="all"), pytest.param((0,), id="one missing")])
def test_a_night_on_buildkite_merges_the_shards_of_its_agents(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    artifacts, agents, kept = tmp_path / "artifacts", tmp_path / "bin", tmp_path / "kept"
    for folder in (artifacts, agents):
        folder.mkdir()
    (agents / "buildkite-agent").write_text(AGENT, encoding="utf-8")
    (agents / "buildkite-agent").chmod(0o755)
    search, merge = buildkite_steps(BUILDKITE)
    build = {**SMALL, "BUILDKITE_BUILD_NUMBER": "7", "BUILDKITE_PARALLEL_JOB_COUNT": "2", "ARTIFACTS": str(artifacts)}
    build["MEMORY"] = str(kept)
    for number in numbers:
        repository = repository_with_nights(tmp_path / f"agent-{number}" / "repository", correct=False)
        agent = Shell(folder=repository, variables={**build, "BUILDKITE_PARALLEL_JOB": str(number)})
        assert agent.run(iter([search])) == {search.name: 1}, agent.printed
        shutil.copy(repository / f"shard-{number}.tar.gz", artifacts)
    merging = repository_with_nights(tmp_path / "merging", correct=False)
    agent = Shell(folder=merging, variables=build, programs=agents)
    missing = len(numbers) < 2
    assert agent.run(iter([merge])) == {merge.name: 2 if missing else 0}, agent.printed
    assert_morning_of(len(numbers), merging, kept)
    verdict = "### night 7: 1 new; not here: part 2/2\n" if missing else "### night 7: 1 new\n"
    assert (artifacts / "annotation.md").read_text(encoding="utf-8").startswith(verdict)
    assert (merging / "nights.tar.gz").is_file()


@pytest.mark.nightly
def test_gitlab_gates_a_merge_request_and_a_push(tmp_path: Path) -> None:
    checkout = pull_request(tmp_path, MASKED, UNMASKED)
    variables = {**SMALL, "DEVICES": "b200", "CASES": "12"}
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": checkout("rev-parse", "origin/main").strip()}
    runner = Shell(folder=checkout.folder, variables={**variables, **base})
    assert runner.run(gitlab_steps(GITLAB, "kernels")) == {"kernels": 1}, runner.printed
    assert "failed: 1 finding" in (checkout.folder / "gate.md").read_text(encoding="utf-8")
    assert [*checkout.folder.glob("reproducers/*.py")]
    assert not (checkout.folder / "fuzz.json").exists()
    runner = Shell(folder=checkout.folder, variables=variables)
    assert runner.run(gitlab_steps(GITLAB, "kernels")) == {"kernels": 1}, runner.printed
    assert all((checkout.folder / name).is_file() for name in ("report.html", "junit.xml", "fuzz.json"))


@pytest.mark.nightly
def test_a_night_on_gitlab_merges_the_shards_of_its_runners(tmp_path: Path) -> None:
    repository = repository_with_nights(tmp_path / "repository", correct=False)
    for number in ("1", "2"):
        pipeline = {"CI_PIPELINE_IID": "7", "CI_NODE_INDEX": number, "CI_NODE_TOTAL": "2", "GITLAB_CI": "true"}
        runner = Shell(folder=repository, variables={**SMALL, **pipeline})
        assert runner.run(gitlab_steps(GITLAB, "kernels-night")) == {"kernels-night": 1}, runner.printed
    runner = Shell(folder=repository, variables=NOTHING_NEW)
    assert runner.run(gitlab_steps(GITLAB, "kernels-report")) == {"kernels-report": 0}, runner.printed
    assert_morning_of(2, repository, repository / "nights")
    assert (repository / "morning.md").read_text(encoding="utf-8").startswith("### night 7: 1 new\n")


@pytest.mark.nightly
def test_nights_on_slurm_remember_those_before(tmp_path: Path) -> None:
    repository = repository_with_nights(tmp_path / "repository", correct=False)
    for night, statuses, verdict in (("77", [1, 1], "1 new"), ("78", [0, 0], "nothing new; 1 still there")):
        array = {**SMALL, "SLURM_ARRAY_JOB_ID": night, "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "1"}
        nodes = [Shell(folder=repository, variables={**array, "SLURM_ARRAY_TASK_ID": task}) for task in ("1", "2")]
        done = [node.run(iter([script("slurm-array.sh")]))["slurm-array.sh"] for node in nodes]
        assert done == statuses, [node.printed for node in nodes]
        node = Shell(folder=repository, variables={"NIGHT": night})
        assert node.run(iter([script("slurm-merge.sh")])) == {"slurm-merge.sh": 0}, node.printed
        work = repository / "harness-nights" / night
        assert (work / "morning.md").read_text(encoding="utf-8").startswith(f"### night {night}: {verdict}\n")
        assert {path.name for path in work.iterdir()} == {
            *("task-1", "task-2", "morning", "morning.md", "morning.json")
        }
    assert night_memory.read(repository / "nights").nights == ("77", "78")


def repository_with_nights(folder: Path, *, correct: bool) -> Path:
    """Return a small repository whose nights have two chunks, one on each of two devices."""
    small_repository(folder, correct=correct)
    (folder / "harness.toml").write_text(NIGHT, encoding="utf-8")
    return folder


def assert_morning_of(machines: int, folder: Path, memory: Path) -> None:
    """Assert that the morning shows the bug of night 7, and that so many machines have ended in it."""
    morning = json.loads((folder / "morning.json").read_text(encoding="utf-8"))
    missing = "" if machines == 2 else "; not here: part 2/2"
    assert (morning["night"], morning["verdict"]) == ("7", f"night 7: 1 new{missing}")
    assert "1 new" in (folder / "morning" / "index.html").read_text(encoding="utf-8")
    assert [run.ended is not None for run in night_memory.read(memory).runs] == [True] * machines


def pull_request(folder: Path, old: str, new: str) -> Git:
    """Return a clone of a repository without a bug, with one change on a branch."""
    origin = small_library.small_repository(folder / "origin")
    origin("clone", "--quiet", str(origin.folder), str(folder / "checkout"))
    checkout = Git(folder / "checkout")
    checkout("switch", "--quiet", "--create", "change")
    small_library.edit(checkout, "small/doubling.py", old, new)
    checkout.commit("A change")
    return checkout


def script(name: str) -> ShellStep:
    return ShellStep(name=name, script=(TEMPLATES / name).read_text(encoding="utf-8"), variables={})
