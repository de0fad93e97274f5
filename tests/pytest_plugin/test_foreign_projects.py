"""The plugin in projects without suites: it costs nothing and changes nothing."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = "attr cattrs hypothesis jinja2 libcst llvmlite numpy psutil rich torch triton"
COUNTING = f"""
import sys

def pytest_sessionfinish():
    heavy = set("{HEAVY}".split()) & set(sys.modules)
    print("heavy modules:", *sorted(heavy))
    print("harness modules:", sum(name.split(".")[0] == "harness" for name in sys.modules))
"""
PASSING = "def test_passes(record_property):\n    record_property('speed', 1)\n"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Other plugins that happen to be installed, Hypothesis's among them, import heavy modules of their own.
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-s", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose folders have the names of ours."""
    (tmp_path / "conftest.py").write_text(COUNTING, encoding="utf-8")
    for name in ("alpha/test_one.py", "regressions/test_two.py", "suites/test_three.py", "suites/shapes.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(PASSING, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("arguments", [(), ("alpha/test_one.py",), ("suites",), ("-p", "xdist", "-n", "1")])
def test_a_project_without_suites_loads_no_heavy_module(project: Path, arguments: tuple[str, ...]) -> None:
    if "xdist" in arguments and find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    done = run(project, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if " modules:" in line]
    heavy, ours = (line.partition(":")[2].split() for line in lines[:2])
    assert heavy == []
    assert int(ours[0]) < 20


def test_a_strict_project_takes_a_harness_that_was_imported_before(project: Path) -> None:
    options = ["-p", "harness", "-p", "no:cacheprovider", "-o", "filterwarnings=error", "alpha"]
    program = f"import sys, harness, pytest; sys.exit(pytest.main({options}))"  # `harness` is marked for rewriting
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_a_project_without_suites_sees_nothing_of_the_plugin(project: Path) -> None:
    done = run(project)
    assert "kernel-harness" not in done.stdout.replace("kernel-harness-", "")  # pytest lists its plugins
    order = [line.split()[0] for line in done.stdout.splitlines() if ".py ." in line]
    assert order == ["alpha/test_one.py", "regressions/test_two.py", "suites/test_three.py"]


def test_options_of_other_projects_do_not_collide(project: Path) -> None:
    options = ("--with", "--sm", "--fail-on", "--device", "--seed", "--engine", "--sanitizer", "--cases")
    adding = "".join(f"    parser.addoption({name!r})\n" for name in options)
    (project / "conftest.py").write_text(f"def pytest_addoption(parser):\n{adding}", encoding="utf-8")
    done = run(project, "--sm", "90", "--with", "torch", "--fail-on", "slow")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_seed_is_printed_where_suites_are_found_unasked(project: Path) -> None:
    suite = "from harness.suite import op, tensor, tokens\n"
    suite += "@op(dims={'T': tokens()}, inputs={'x': tensor('T')})\ndef one(x):\n    return x\n"
    suite += "@one.reference\ndef _(x):\n    return x\n"
    (project / "suites" / "norm.py").write_text(suite, encoding="utf-8")
    for arguments in ((), ("suites",)):
        done = run(project, "--collect-only", *arguments)
        assert done.stdout.count(", --harness-seed ") == 1, done.stdout


def test_every_option_of_the_plugin_names_the_harness() -> None:
    program = "import pytest; from harness.pytest_plugin.plugin_options import add_options as add\n"
    program += "from _pytest.config.argparsing import Parser; p = Parser(_ispytest=True); add(p)\n"
    program += "print(*(name for group in p._groups for one in group.options for name in one.names()))"
    listed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    names = listed.stdout.split()
    assert names
    assert [name for name in names if not name.startswith("--harness-")] == []


def test_the_severities_of_the_plugin_are_those_of_findings() -> None:
    from harness.model.verdict import Severity
    from harness.pytest_plugin.plugin_options import SEVERITIES

    assert tuple(Severity) == SEVERITIES


def test_messages_name_options_as_pytest_takes_them() -> None:
    from harness.pytest_plugin.plugin_options import in_pytest_options

    message = "a, which is not installed: add --with a (or --engine cuda, see --without-it and --harness-sm)"
    assert in_pytest_options(message) == (
        "a, which is not installed: add --harness-with a (or --harness-engine cuda, see --without-it and --harness-sm)"
    )
