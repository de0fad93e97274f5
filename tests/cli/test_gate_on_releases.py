"""`harness gate` on a released library: a bug that an older release had fails, whatever else changes passes."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from harness.libraries import resolve
from harness.settings import Settings
from tests.cli.command_line import Finished, Project, cpu_seconds_of_children
from tests.findings.bisection.test_worktrees import Git
from tests.gate.small_library import edit

pytestmark = [pytest.mark.slow, pytest.mark.nightly]  # downloads a release; each search takes its minutes

RELEASE = "fla-core==0.6.0"
KERNELS = "fla/ops/kda/fused_recurrent.py"
FIXED = "b_g = tl.load(p_g, mask=mask_k, other=0, eviction_policy='evict_last')"
BROKEN = "b_g = tl.load(p_g, eviction_policy='evict_last')"
"""As in fla-core 0.5.2: gates are read beyond K, unless that is a power of two."""
OPS = ["fused_recurrent_kda", "fused_recurrent_kda_varlen", "fused_recurrent_kda_with_gate"]
LIMIT_S = 300.0


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (installed,) = resolve([RELEASE], cache=Settings().cache)
    folder = tmp_path_factory.mktemp("release") / "library"
    git = Git(folder)
    shutil.copytree(Path(installed) / "fla", folder / "fla", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text(".harness\n__pycache__\n", encoding="utf-8")
    (folder / "README.md").write_text("Kernels.\n", encoding="utf-8")
    git.commit("A release")
    return folder


@pytest.fixture
def git(release: Path, tmp_path: Path) -> Git:
    shutil.copytree(release, tmp_path / "library")
    return Git(tmp_path / "library")


def gated(git: Git, *arguments: str) -> tuple[Finished, Any]:
    begun = time.monotonic()
    options = ("--base", "main", "--json", "gate.json", "--markdown", "comment.md", *arguments)
    done = Project(git.folder).process("gate", "fla:kda", *options, limit_s=2 * LIMIT_S)
    assert time.monotonic() - begun < LIMIT_S
    return done, json.loads((git.folder / "gate.json").read_text(encoding="utf-8"))


def test_a_bug_that_comes_back_fails_within_minutes(git: Git) -> None:
    edit(git, KERNELS, FIXED, BROKEN)
    done, document = gated(git)
    assert done.status == 1, done.err
    assert [change["op"].rpartition(":")[2] for change in document["changes"]] == OPS
    assert all(change["kernels"] == ["fused_recurrent_kda_fwd_kernel"] for change in document["changes"])
    signatures = [judged["signature"] for judged in document["findings"] if judged["fails"]]
    assert f"bounds: fused_recurrent_kda_fwd_kernel fused_recurrent.py: {BROKEN}.to(tl.float32)" in signatures


def test_another_name_of_a_variable_passes(git: Git) -> None:
    rename(git, "p_beta", "p_strength")
    done, document = gated(git, "--minutes", "1.5")
    assert (done.status, document["verdict"], document["findings"]) == (0, "passed", []), done.err
    assert len(document["changes"]) == len(OPS)


def test_a_bug_of_the_base_passes_and_is_said(git: Git) -> None:
    edit(git, KERNELS, FIXED, BROKEN)
    git.commit("The bug of an older release")
    rename(git, "p_beta", "p_strength")
    done, document = gated(git)
    assert (done.status, document["verdict"]) == (0, "passed"), done.err
    assert {judged["standing"] for judged in document["findings"]} == {"at the base too"}
    assert "also at main" in (git.folder / "comment.md").read_text(encoding="utf-8").splitlines()[0]


def test_a_comment_in_a_kernel_passes_in_seconds(git: Git) -> None:
    edit(git, KERNELS, FIXED, f"# gates\n        {FIXED}")
    edit(git, "README.md", "Kernels", "Fast kernels")
    begun = cpu_seconds_of_children()
    done, document = gated(git)
    assert cpu_seconds_of_children() - begun < 5
    assert (done.status, document["changes"], document["campaign"]) == (0, [], None)


def rename(git: Git, old: str, new: str) -> None:
    path = git.folder / KERNELS
    text = path.read_text(encoding="utf-8")
    assert new not in text
    path.write_text(text.replace(old, new), encoding="utf-8")
