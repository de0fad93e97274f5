"""The shell of each template does what it says: it runs here, with the real harness, on a small repository."""

import shutil
from pathlib import Path

import pytest

from harness import __version__
from harness.documents import files
from harness.documents.campaign import CampaignReport
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

pytestmark = pytest.mark.slow

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
def test_the_gate_of_github_fails_for_an_error_and_reports_it(tmp_path: Path, status: int) -> None:
    correct = status == 0
    repository = small_repository(tmp_path / "repository", correct=correct)
    runner = github(repository, tmp_path / "runner", DEVICES="b200", CASES="4")
    assert runner.run(github_steps(GATE, "gate", {})) == {"Install": 0, "Search": status, "Report": 0}, runner.printed
    report = files.read(repository / "fuzz.json", CampaignReport)
    assert bool(report.findings) is not correct
    summary = (tmp_path / "runner" / "github_step_summary").read_text(encoding="utf-8")
    assert summary.startswith(
        "### kernel-harness: no findings" if correct else "### kernel-harness: 1 finding: 1 error"
    )
    assert all((repository / name).is_file() for name in ("report.html", "junit.xml", "kernels.sarif"))


@pytest.mark.parametrize(("tag", "status"), [(f"v{__version__}", 0), ("v0.0.0", 1)], ids=["same", "another"])
def test_a_release_has_the_version_of_its_tag(tmp_path: Path, tag: str, status: int) -> None:
    section = f"# Changes\n\n## {__version__}\n"
    (tmp_path / "CHANGELOG.md").write_text(section, encoding="utf-8")
    first, *_ = github_steps(WORKFLOWS / "release.yml", "build", {})
    runner = github(tmp_path, tmp_path, GITHUB_REF_NAME=tag, PYTHONPATH=str(ROOT))
    assert runner.run(iter([first])) == {first.name: status}, runner.printed


@pytest.mark.nightly
def test_a_night_on_github_merges_the_shards_of_its_runners(tmp_path: Path) -> None:
    for number in (1, 2):
        repository = small_repository(tmp_path / f"runner-{number}" / "repository", correct=False)
        expressions = {"matrix.gpu": "h100", "matrix.shard": f"{number}/2", "github.run_number": "7"}
        runner = github(repository, tmp_path / f"home-{number}")
        done = runner.run(github_steps(NIGHTLY, "search", expressions))
        assert done == {"Install": 0, "Look at the GPU": 0, "Search": 0}, runner.printed
    merging = small_repository(tmp_path / "merging", correct=False)
    (merging / "shards").mkdir()
    for shard in tmp_path.glob("runner-*/repository/shards/*.json"):
        shutil.copy(shard, merging / "shards")
    assert [one.name for one in sorted(merging.glob("shards/*"))] == ["h100-1.json", "h100-2.json"]
    runner = github(merging, tmp_path / "home")
    done = runner.run(github_steps(NIGHTLY, "merge", {"github.run_number": "7"}))
    assert done == {"Install": 0, "Merge": 1, "Report": 0}, runner.printed
    assert "1 finding: 1 error" in (merging / "site" / "index.html").read_text(encoding="utf-8")


def test_the_matrix_of_a_night_has_every_shard() -> None:
    shards = document(NIGHTLY)["jobs"]["search"]["strategy"]["matrix"]["shard"]
    assert shards == [f"{number}/{len(shards)}" for number in range(1, len(shards) + 1)]


@pytest.mark.nightly
@pytest.mark.parametrize("numbers", [pytest.param((0, 1), id="all"), pytest.param((0,), id="one missing")])
def test_a_night_on_buildkite_merges_the_shards_of_its_agents(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    artifacts, agents = tmp_path / "artifacts", tmp_path / "bin"
    for folder in (artifacts, agents):
        folder.mkdir()
    (agents / "buildkite-agent").write_text(AGENT, encoding="utf-8")
    (agents / "buildkite-agent").chmod(0o755)
    search, merge = buildkite_steps(BUILDKITE)
    build = {**SMALL, "BUILDKITE_BUILD_NUMBER": "7", "BUILDKITE_PARALLEL_JOB_COUNT": "2", "ARTIFACTS": str(artifacts)}
    for number in numbers:
        repository = small_repository(tmp_path / f"agent-{number}" / "repository", correct=True)
        agent = Shell(folder=repository, variables={**build, "BUILDKITE_PARALLEL_JOB": str(number)})
        assert agent.run(iter([search])) == {search.name: 0}, agent.printed
        shutil.copy(repository / f"shard-{number}.json", artifacts)
    agent = Shell(folder=tmp_path / "agent-0" / "repository", variables=build, programs=agents)
    missing = len(numbers) < 2
    assert agent.run(iter([merge])) == {merge.name: 2 if missing else 0}, agent.printed
    annotation = (artifacts / "annotation.md").read_text(encoding="utf-8")
    assert annotation.startswith("### kernel-harness: no findings")


@pytest.mark.nightly
def test_gitlab_gates_a_change_and_merges_a_night(tmp_path: Path) -> None:
    repository = small_repository(tmp_path / "repository", correct=False)
    runner = Shell(folder=repository, variables={**SMALL, "DEVICES": "b200", "CASES": "4"})
    assert runner.run(gitlab_steps(GITLAB, "kernels")) == {"kernels": 1}, runner.printed
    assert all((repository / name).is_file() for name in ("report.html", "junit.xml", "fuzz.json"))
    for number in ("1", "2"):
        pipeline = {"CI_PIPELINE_IID": "7", "CI_NODE_INDEX": number, "CI_NODE_TOTAL": "2", "GITLAB_CI": "true"}
        runner = Shell(folder=repository, variables={**SMALL, **pipeline})
        assert runner.run(gitlab_steps(GITLAB, "kernels-night")) == {"kernels-night": 0}, runner.printed
    runner = Shell(folder=repository, variables=NOTHING_NEW)
    assert runner.run(gitlab_steps(GITLAB, "kernels-report")) == {"kernels-report": 1}, runner.printed
    assert "1 finding: 1 error" in (repository / "report.html").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_a_night_on_slurm_merges_the_tasks_of_its_array(tmp_path: Path) -> None:
    repository = small_repository(tmp_path / "repository", correct=False)
    array = {**SMALL, "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "1"}
    for task in ("1", "2"):
        node = Shell(folder=repository, variables={**array, "SLURM_ARRAY_TASK_ID": task})
        assert node.run(iter([script("slurm-array.sh")])) == {"slurm-array.sh": 0}, node.printed
    node = Shell(folder=repository, variables={"NIGHT": "77"})
    assert node.run(iter([script("slurm-merge.sh")])) == {"slurm-merge.sh": 1}, node.printed
    night = repository / "harness-nights" / "77"
    assert {path.name for path in night.glob("*.*")} == {
        *("shard-1.json", "shard-2.json", "merged.json", "report.html", "summary.md", "junit.xml")
    }


def script(name: str) -> ShellStep:
    return ShellStep(name=name, script=(TEMPLATES / name).read_text(encoding="utf-8"), variables={})
