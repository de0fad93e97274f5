"""The rule of one touch: what is known about an oracle or an engine stands in its own file, and no list beside it."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.model.engine_traits import COMPILE_AHEAD, CUDA, ENGINES, PTX
from harness.oracles import registry

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ROOT / "harness"
SOURCES = sorted(HARNESS.rglob("*.py"))
"""The package alone: tests, `suites/planted`, `ci` and `studies` state which oracle or engine must show a known bug."""
ORACLES = frozenset(oracle.name for oracle in registry.ALL)
ENGINE_FILE = HARNESS / "model" / "engine_traits.py"
OTHER_MEANINGS = {
    ("engines/cuda/sanitizers/sanitizer_command.py", "compute-sanitizer"): "the executable",
    ("reports/sarif.py", "precision"): "a property of SARIF's rules",
}
"""Strings that equal an oracle's name by chance."""
AMBIGUOUS = frozenset({CUDA.name, PTX.name})
"""Names of engines that also mean a kind of devices and a stage of the compiler.

They count where an engine has them or is compared with them.
"""
PAGE = ROOT / "docs" / "how-to" / "add-an-oracle.md"
PROGRAM = """
import json, sys
import harness.oracles
harness.oracles.__path__.append(sys.argv[1])

from ci.reference import lists
from harness.checks.flaws import Evidences, flaws_of
from harness.documents.campaign import VerdictCount
from harness.model.run import Run
from harness.model.verdict import Fail, Outcome
from harness.oracles import registry
from harness.reports import summary
from harness.watched.watch_records import PER_LAUNCH
from tests.oracles.facts import launch, run

wide = run(launches=(launch(num_warps=32),))
fails = [one for one in registry.judge_all(wide, {}, {}) if isinstance(one, Fail)]
row = VerdictCount(op="op", device="h200", oracle="few-warps", outcome=Outcome.FAIL, cases=3)
names = [oracle.name for oracle in registry.ALL]
print(json.dumps({
    "after": names[names.index("few-warps") - 1],
    "fails": [fail.oracle for fail in fails],
    "flaws": [flaw.kind for flaw in flaws_of(Evidences(failures=[(fail, "case", "") for fail in fails]))],
    "watched": "few-warps" in PER_LAUNCH,
    "documented": "`few-warps`" in lists.oracles(),
    "reported": next(iter(summary.checks([row], []))),
}))
"""


def test_no_oracle_is_named_outside_its_own_file() -> None:
    named = {
        (path.relative_to(HARNESS).as_posix(), node.value)
        for path in SOURCES
        if path.parent != HARNESS / "oracles"
        for node in _strings(ast.parse(path.read_text(encoding="utf-8")))
        if node.value in ORACLES
    }
    assert named == set(OTHER_MEANINGS)


def test_each_oracle_is_named_in_one_file() -> None:
    files = [path for path in SOURCES if path.parent == HARNESS / "oracles"]
    texts = {path.name: {node.value for node in _strings(ast.parse(path.read_text("utf-8")))} for path in files}
    homes = {name: [file for file, strings in texts.items() if name in strings] for name in ORACLES}
    assert {name: found for name, found in homes.items() if len(found) != 1} == {}


def test_no_engine_is_named_outside_the_file_of_their_traits() -> None:
    names = {engine.name for engine in (*ENGINES, COMPILE_AHEAD)}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if path != ENGINE_FILE
        for node in _engine_names(ast.parse(path.read_text(encoding="utf-8")), names)
    ]
    assert wrong == []


def test_no_engine_is_compared_by_its_name() -> None:
    compares = re.compile(r"engine(\.traits)?(\.name)? (==|!=|is|is not|in|not in) [\"'{(]")
    wrong = [str(path.relative_to(ROOT)) for path in SOURCES if compares.search(path.read_text(encoding="utf-8"))]
    assert wrong == []


def test_an_oracle_of_the_documentation_needs_no_other_change(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "few_warps.py").write_text(code, encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert child.stderr == ""
    assert json.loads(child.stdout) == {
        "after": "launch-limits",
        "fails": ["few-warps"],
        "flaws": ["broken promise"],
        "watched": True,
        "documented": True,
        "reported": "checked: few-warps 3",
    }


def test_no_two_oracles_share_a_rank() -> None:
    assert len({oracle.traits.rank for oracle in registry.ALL}) == len(registry.ALL)


def _strings(tree: ast.AST) -> Iterator[ast.Constant]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _engine_names(tree: ast.AST, names: set[str]) -> Iterator[ast.Constant]:
    """Yield names of engines; of torch's device type, only those that an expression or keyword about engines has."""
    about = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.keyword) and "engine" in ast.unparse(node)
        for part in ast.walk(node)
    }
    for node in _strings(tree):
        if node.value in names and (node.value not in AMBIGUOUS or id(node) in about):
            yield node
