"""Wrong suites and unwritable folders: one line, and exit status 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import ON, Project, cpu_seconds_of_children
from tests.cli.fake_engine import suite_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            suite_of("faultless", options=', refuse=("ValueError",)'),
            "wrong.py: op 'faultless' has an unknown argument 'refuse': did you mean refuses or requires?",
        ),
        (
            suite_of("faultless", options=', where=lambda at: at["T"] < 20 or at["K"] > 1'),
            "wrong.py: op 'faultless' asks in `where` for an unknown name 'K': known: D, G, T",
        ),
        (
            suite_of("faultless", options=', waives=("order-invariant",)'),
            "wrong.py: op 'faultless' waives an unknown oracle 'order-invariant': did you mean order-invariance",
        ),
        (
            "import pytest\nfrom harness import suite\npytest.importorskip('no_such_kernels')\n",
            "wrong.py:3 fails on import: Skipped: could not import 'no_such_kernels'",
        ),
        ("import sys\nfrom harness import suite\nsys.exit(0)\n", "wrong.py:3 fails on import: SystemExit: 0"),
        ("from harness import suite\nx = (1,\n", "wrong.py:2 fails on import: SyntaxError: '(' was never closed"),
        (
            "import json\nfrom harness import suite\n\ndef sizes():\n    return json.loads('{')\n\nSIZES = sizes()\n",
            "wrong.py:5 fails on import: JSONDecodeError: Expecting property name",
        ),
    ],
)
def test_a_wrong_suite_is_an_error_of_one_line(tmp_path: Path, text: str, line: str) -> None:
    project = Project(tmp_path)
    project.write("wrong.py", text)
    done = project.harness("fuzz", "wrong.py", "--cases", "5", *ON)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"harness: {line}")


def test_a_reference_of_another_structure_is_one_message(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("suites/norm.py", suite_of("misshapen", "faultless"))
    done = project.harness("fuzz", "suites", "--cases", "20", *ON, "--json", "r.json")
    (line,) = [line for line in done.out.splitlines() if line.startswith("suite error: ")]
    assert line.startswith("suite error: suites/norm.py: op 'misshapen' and its reference return different structures")
    assert done.status == 2
    assert " passed, 0 failed, " in done.out


@pytest.mark.parametrize("blocked", ["a file", "nothing may be made", "nothing may be made in it"])
def test_an_unwritable_folder_is_an_error_of_one_line(tmp_path: Path, blocked: str) -> None:
    project = Project(tmp_path)
    suite = tmp_path / "norm.py"
    project.write("norm.py", suite_of("faultless"))
    match blocked:
        case "a file":
            project.write(".harness", "")
        case "nothing may be made":
            project = Project(Path("/proc"))  # where root may make nothing, either
        case _:
            (tmp_path / ".harness").symlink_to("/proc")
    done = project.harness("fuzz", str(suite), "--cases", "5", *ON)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"harness: cannot write to {project.folder / '.harness'}: ")


PRIVATE = """
from harness.suite import op, tensor, tokens

@op({requires}dims={{"T": tokens()}}, inputs={{"x": tensor("T")}})
def twice(x):
    from acme_kernels import twice
    return twice(x)

@twice.reference
def _(x):
    return 2 * x
"""


@pytest.mark.parametrize(
    ("requires", "line"),
    [
        ("", "private.py imports acme_kernels, which is not installed: add --with and its folder or wheel"),
        ('requires=("acme",), ', "private.py tests acme, which is not installed: add --with and its folder or wheel"),
    ],
)
def test_a_missing_library_is_named_before_anything_is_loaded(tmp_path: Path, requires: str, line: str) -> None:
    project = Project(tmp_path)
    project.write("private.py", PRIVATE.format(requires=requires))
    begun = cpu_seconds_of_children()
    done = project.process("fuzz", "private.py", "--cases", "5")
    spent = cpu_seconds_of_children() - begun
    assert (done.status, done.out, done.err) == (2, "", f"harness: {line}\n")
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    of_torch = cpu_seconds_of_children() - begun - spent
    assert spent < of_torch, "the command imports torch, or as much as torch"


def test_a_missing_library_of_a_shipped_suite_is_named_with_its_release_on_pypi(tmp_path: Path) -> None:
    done = Project(tmp_path).harness("fuzz", "liger:norm", "--cases", "5")
    assert done.status == 2
    assert done.err == (
        "harness: suites/liger/norm.py tests liger-kernel, which is not installed: add --with liger-kernel\n"
    )


@pytest.mark.parametrize(
    ("suite", "file", "name"),
    [
        ("vllm:sampler", "suites/vllm/sampler.py", "vllm"),
        ("flash_attn:add_norm", "suites/flash_attn/add_norm.py", "flash-attn"),
        ("mamba:gated_norm", "suites/mamba/gated_norm.py", "mamba-ssm"),
    ],
)
def test_a_missing_library_that_is_read_from_sources_is_named_with_them(
    tmp_path: Path, suite: str, file: str, name: str
) -> None:
    done = Project(tmp_path).harness("fuzz", suite, "--cases", "5")
    assert done.status == 2
    assert done.err == (f"harness: {file} tests {name}, which is not installed: add --with sources:{name}==VERSION\n")


FAILING = """
from harness.suite import op, tensor, tokens

DECLARED = {"dims": {"T": tokens(64, grows=False)}, "inputs": {"x": tensor("T", grad=False)}, "launches": False}


@op(**DECLARED)
def wrong_call(x):
    return x.view(7, -1) * 2


@op(**DECLARED)
def wrong_definition(x):
    return x * 2


wrong_call.reference(lambda x: x * 2)


@wrong_definition.reference
def _(x):
    return {"y": x * 2}["z"]
"""


def test_an_exception_of_the_suites_own_code_blames_its_line(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("suites/failing.py", FAILING)
    done = project.harness("fuzz", "suites", "--cases", "8", "--device", "h200", "--seed", "1")
    definition = "suite error: suites/failing.py:22: the definition of op 'wrong_definition' raised KeyError: 'z' ("
    assert definition in done.out
    assert "RuntimeError was raised by the suite, in the op's own function: shape" in done.out.replace("\n", " ")
    assert "The library cannot run this input" not in done.out
    alone = project.harness("fuzz", "suites", "--op", "wrong_definition", "--cases", "2", "--device", "h200")
    assert (done.status, alone.status) == (1, 2)
