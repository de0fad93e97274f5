"""A week of nights in one repository, by the commands of the workflow that `harness init --ci github` writes.

Bugs come, one goes and comes back, a formatter moves lines, and one op cannot be imported for a night.  Each night is
as on GitHub: fresh checkouts for the shards and for the merge, and the reports of earlier nights from the cache.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from tests.ci.workflow_shell import document, github, github_steps

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
]  # minutes: 14 searches and 7 merges, each in an environment of its own

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def NAME_kernel(X, Y, T, ROWS: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * STEP + tl.arange(0, ROWS)
    values = tl.load(X + rows, mask=rows < T)
    tl.store(Y + rows, VALUE, mask=rows < T)


def NAME(x):
    y = torch.empty_like(x)
    NAME_kernel[(triton.cdiv(x.numel(), 8),)](x, y, x.numel(), ROWS=8, STEP=8)
    return y
"""
OP = """

@op(dims={"T": tokens(64, grows=False)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def NAME(x):
    from kernels import NAME

    return NAME.NAME(x)


@NAME.reference
def NAME_definition(x):
    return RIGHT
"""
OPS = {"double": ("values + values", "x + x"), "negate": ("-values", "-x"), "square": ("values * values", "x * x")}
"""By op, what its kernel stores, and its definition."""
WORKFLOW = Path(".github", "workflows", "kernel-harness-nightly.yml")
GIT = shutil.which("git") or "/usr/bin/git"
PROJECT = '[tool.kernel-harness]\ndevice = "b200"\nwith = ["."]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night says."""

    merge: int
    """The exit status of the merge."""
    ids: frozenset[str]
    change: str
    """The sentence that compares with the night before, and the lines below it."""


class Week:
    """A repository of kernels, and what GitHub keeps of its nights."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept = folder / "cache" / "nights"
        self._nights = 0
        self.repository = folder / "repository"
        for name, (value, _) in OPS.items():
            self._write(name, KERNEL.replace("NAME", name).replace("VALUE", value))
        suite = "from harness.suite import DType, op, tensor, tokens\n"
        suite += "".join(OP.replace("NAME", name).replace("RIGHT", right) for name, (_, right) in OPS.items())
        (self.repository / "suites").mkdir()
        (self.repository / "suites" / "mine.py").write_text(suite, encoding="utf-8")
        (self.repository / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        (self.repository / "kernels" / "__init__.py").touch()
        self._git("init", "--quiet", "--initial-branch", "main")

    def init(self) -> None:
        """Write the workflow, and set the label of the runners as its first lines ask."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.repository)
            assert main(["init", "--ci", "github", "--machines", "2"]) == 0
        path = self.repository / WORKFLOW
        text = path.read_text(encoding="utf-8")
        assert "gpu: [h100, b200]" in text
        path.write_text(text.replace("gpu: [h100, b200]", "gpu: [b200]"), encoding="utf-8")
        self._commit("begin")

    def edit(self, op: str, *changes: tuple[str, str]) -> None:
        """Commit changes of an op's kernel file."""
        text = (self.repository / "kernels" / f"{op}.py").read_text(encoding="utf-8")
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        self._write(op, text)
        self._commit(f"change {op}")

    def night(self) -> Night:
        """Run the jobs of the workflow."""
        self._nights += 1
        place = self._folder / f"night-{self._nights}"
        shards: list[Path] = []
        matrix = document(self.repository / WORKFLOW)["jobs"]["search"]["strategy"]["matrix"]
        expressions = {"github.run_number": str(self._nights)}
        for shard in matrix["shard"]:
            checkout = self._checkout(place / f"search-{shard.replace('/', '-')}")
            runner = github(checkout, checkout.parent / f"{checkout.name}-home", CASES="24")
            (gpu,) = matrix["gpu"]
            steps = github_steps(
                checkout / WORKFLOW, "search", {**expressions, "matrix.gpu": gpu, "matrix.shard": shard}
            )
            assert runner.run(steps) == {"Install": 0, "Look at the GPU": 0, "Search": 0}, runner.printed
            shards += (checkout / "shards").glob("*.json")
        checkout = self._checkout(place / "merge")
        (checkout / "shards").mkdir()
        for shard in shards:
            shutil.copy(shard, checkout / "shards")
        if self._kept.exists():
            shutil.copytree(self._kept, checkout / "nights")
        runner = github(checkout, place / "merge-home")
        done = runner.run(github_steps(checkout / WORKFLOW, "merge", expressions))
        assert (done["Install"], done["Report"]) == (0, 0), runner.printed
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(checkout / "nights", self._kept)
        merged: Any = json.loads((checkout / "merged.json").read_text(encoding="utf-8"))
        summary = (place / "merge-home" / "github_step_summary").read_text(encoding="utf-8")
        changes = re.search(r"^Compared with the previous report: .*\Z", summary, re.MULTILINE | re.DOTALL)
        return Night(
            merge=done["Merge"],
            ids=frozenset(finding["id"] for finding in merged["findings"]),
            change=changes[0] if changes else "",
        )

    def _checkout(self, folder: Path) -> Path:
        self._git("clone", "--quiet", str(self.repository), str(folder))
        return folder

    def _write(self, op: str, text: str) -> None:
        path = self.repository / "kernels" / f"{op}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _commit(self, subject: str) -> None:
        self._git("add", "--all")
        self._git("-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", subject)

    def _git(self, *words: str) -> None:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run((GIT, *words), cwd=self.repository, env=environment, check=True)


BEYOND = ("tl.store(Y + rows, values + values, mask=rows < T)", "tl.store(Y + rows, values + values)")
"""An error: the last program stores beyond the end."""
OVERLAP = ("ROWS=8, STEP=8", "ROWS=16, STEP=8")
"""A warning: two programs store the same cells."""
MOVED = ("@triton.jit\n", "# A comment.\ndef unused(renamed):\n    return renamed\n\n\n@triton.jit\n")
WRAPPED = (
    "tl.store(Y + rows, values + values)",
    "tl.store(\n        Y + rows,  # a comment\n        values + values,\n    )",
)
WITHOUT = ("import torch\n", "import a_module_that_is_not_there\nimport torch\n")


def back(change: tuple[str, str]) -> tuple[str, str]:
    return change[1], change[0]


def test_a_week_says_what_is_new_still_gone_back_and_not_looked_at(tmp_path: Path) -> None:
    week = Week(tmp_path)
    week.init()
    assert week.night() == Night(merge=0, ids=frozenset(), change="")

    week.edit("double", BEYOND)
    second = week.night()
    (error,) = second.ids
    assert second.merge == 1
    assert second.change.startswith("Compared with the previous report: 1 new, 0 still, 0 gone.\n- new: bounds: double")

    week.edit("double", MOVED, WRAPPED)
    assert week.night() == Night(
        merge=1, ids=second.ids, change="Compared with the previous report: 0 new, 1 still, 0 gone.\n"
    )

    week.edit("negate", OVERLAP)
    fourth = week.night()
    (warning,) = fourth.ids - second.ids
    assert (fourth.merge, fourth.ids) == (1, frozenset({error, warning}))
    assert fourth.change.startswith(
        "Compared with the previous report: 1 new, 1 still, 0 gone.\n- new: write-overlap: neg"
    )

    week.edit("double", back(WRAPPED), back(BEYOND))
    fifth = week.night()
    assert (fifth.merge, fifth.ids) == (0, {warning})  # the merge fails for errors alone
    assert fifth.change.startswith("Compared with the previous report: 0 new, 1 still, 1 gone.\n- gone: bounds: double")

    week.edit("double", BEYOND)
    week.edit("negate", WITHOUT)
    sixth = week.night()
    assert (sixth.merge, sixth.ids) == (1, {error})
    first, *lines = sixth.change.splitlines()
    assert first == "Compared with the previous report: 0 new, 1 back, 0 still, 0 gone, 1 not looked at."
    assert [line.partition(" double")[0].partition(" neg")[0] for line in lines] == [
        "- back: bounds:",
        "- not looked at: write-overlap:",
    ]

    week.edit("negate", back(WITHOUT))
    assert week.night() == Night(
        merge=1, ids=fourth.ids, change="Compared with the previous report: 0 new, 2 still, 0 gone.\n"
    )
