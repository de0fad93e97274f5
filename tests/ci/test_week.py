"""A week of nights in one repository, by the commands of the workflow that `harness init --ci github` writes.

Bugs come, one goes and comes back, a formatter moves lines, and one op cannot be imported for a night.  Each night is
as on GitHub: fresh checkouts for the shards and for the merge, and the memory of earlier nights from the cache.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from tests.ci.workflow_shell import document, github, github_steps

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
]  # minutes: 14 parts of nights and 7 merges, each in an environment of its own

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

@op(dims={"T": tokens(64, grows=False)}, inputs={"x": tensor("T", grad=False, contiguous=True)}, dtypes=(DType.FP32,))
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


NIGHT = ("minutes = 105  # less than the time limit of the CI job", "cases = 24\nblock = 4")
"""Six chunks of three ops on one device, so each of two shards has one of each op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night says."""

    fails: bool
    """True if a shard fails."""
    bugs: Mapping[str, str]
    """The state of each, by its oracle and op."""
    ids: frozenset[str]
    verdict: str


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
        """Write the workflow; set the label of the runners and what a night searches, as its first lines ask."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.repository)
            assert main(["init", "--ci", "github", "--machines", "2"]) == 0
        path = self.repository / WORKFLOW
        text = path.read_text(encoding="utf-8")
        assert "gpu: [h100, b200]" in text
        path.write_text(text.replace("gpu: [h100, b200]", "gpu: [b200]"), encoding="utf-8")
        path = self.repository / "pyproject.toml"
        text = path.read_text(encoding="utf-8")
        for old, new in (NIGHT, ('engine = "cuda"', 'engine = "virtual"')):
            assert text.count(old) == 1
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
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
        matrix = document(self.repository / WORKFLOW)["jobs"]["search"]["strategy"]["matrix"]
        expressions = {"github.run_number": str(self._nights)}
        merging = self._checkout(place / "merge")
        statuses: list[int] = []
        for shard in matrix["shard"]:
            checkout = self._checkout(place / f"search-{shard.replace('/', '-')}")
            runner = github(checkout, checkout.parent / f"{checkout.name}-home")
            (gpu,) = matrix["gpu"]
            steps = github_steps(
                checkout / WORKFLOW, "search", {**expressions, "matrix.gpu": gpu, "matrix.shard": shard}
            )
            done = runner.run(steps)
            assert (done["Install"], done["Look at the GPU"]) == (0, 0), runner.printed
            assert done["Search"] in {0, 1}, runner.printed
            statuses.append(done["Search"])
            shutil.copytree(checkout / "nights", merging / "shards" / f"shard-{gpu}-{len(statuses) - 1}")
        runner = github(merging, place / "merge-home")
        done = runner.run(github_steps(merging / WORKFLOW, "merge", expressions))
        assert done == {"Install": 0, "Report": 0}, runner.printed
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(merging / "nights", self._kept)
        morning: Any = json.loads((merging / "morning.json").read_text(encoding="utf-8"))
        summary = (place / "merge-home" / "github_step_summary").read_text(encoding="utf-8")
        assert summary.startswith(f"### {morning['verdict']}\n")
        assert all((merging / "morning" / bug["page"]).is_file() for bug in morning["bugs"])
        return Night(
            fails=any(statuses),
            bugs={f"{bug['signature'].partition(':')[0]} {_op(bug)}": bug["state"] for bug in morning["bugs"]},
            ids=frozenset(bug["id"] for bug in morning["bugs"]),
            verdict=morning["verdict"],
        )

    def _checkout(self, folder: Path) -> Path:
        self._git("clone", "--quiet", str(self.repository), str(folder))
        if self._kept.exists():
            shutil.copytree(self._kept, folder / "nights")
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


def _op(bug: Any) -> str:
    (op,) = bug["ops"]
    return op.rpartition(":")[2]


ERROR, WARNING = "bounds double", "write-overlap negate"


def test_a_week_shows_what_is_new_still_there_gone_back_and_not_looked_for(tmp_path: Path) -> None:
    week = Week(tmp_path)
    week.init()
    assert week.night() == Night(fails=False, bugs={}, ids=frozenset(), verdict="night 1: nothing new")

    week.edit("double", BEYOND)
    second = week.night()
    assert second == Night(fails=True, bugs={ERROR: "new"}, ids=second.ids, verdict="night 2: 1 new")

    week.edit("double", MOVED, WRAPPED)
    assert week.night() == Night(
        fails=False, bugs={ERROR: "still there"}, ids=second.ids, verdict="night 3: nothing new; 1 still there"
    )

    week.edit("negate", OVERLAP)
    fourth = week.night()
    assert fourth == Night(  # a new warning does not fail
        fails=False,
        bugs={WARNING: "new", ERROR: "still there"},
        ids=fourth.ids,
        verdict="night 4: 1 new; 1 still there",
    )
    assert fourth.ids > second.ids

    week.edit("double", back(WRAPPED), back(BEYOND))
    assert week.night() == Night(
        fails=False,
        bugs={WARNING: "still there", ERROR: "gone"},
        ids=fourth.ids,
        verdict="night 5: nothing new; 1 still there, 1 gone",
    )

    week.edit("double", BEYOND)
    week.edit("negate", WITHOUT)
    assert week.night() == Night(
        fails=True,
        bugs={ERROR: "back", WARNING: "not looked for"},
        ids=fourth.ids,
        verdict="night 6: 1 back; 1 not looked for",
    )

    week.edit("negate", back(WITHOUT))
    assert week.night() == Night(
        fails=False,
        bugs={ERROR: "still there", WARNING: "still there"},
        ids=fourth.ids,
        verdict="night 7: nothing new; 2 still there",
    )
