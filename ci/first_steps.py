"""Run the commands of the README's section `Use`, in order, as a new user: in a small repository, without a clone.

    python ci/first_steps.py FOLDER --bin ENVIRONMENT/bin

`FOLDER` is empty.  Files, commands and what they print are blocks, as on the tutorial's page.  A search has a smaller
budget than in the README, and an id is that of the repository's own bug.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from ci.tutorial import Block, Tutorial

ROOT = Path(__file__).resolve().parent.parent
ANSWERS = ROOT / "tests" / "check_answers"
KERNEL = '''\
"""A kernel whose programs store four rows of their neighbour again: with the same values, so no test fails."""

import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, y, size, ROWS: tl.constexpr):
    rows = tl.program_id(0) * 4 + tl.arange(0, ROWS)
    values = tl.load(x + rows, mask=rows < size)
    tl.store(y + rows, values + values, mask=rows < size)


def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 4),)](x, y, x.numel(), ROWS=8)
    return y
'''
TEST = """\
import torch

from my_kernels import doubling


def test_double():
    x = torch.randn(64, device="cuda")
    assert torch.equal(doubling.double(x), x + x)
"""
SUITE = """\
from harness.suite import DType, op, tensor, tokens


@op(dims={"T": tokens(64, grows=False)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def double(x):
    from my_kernels import doubling

    return doubling.double(x)


@double.reference
def definition(x):
    return x + x
"""
BUG = "7e523341"
"""The id of the repository's bug: equal on each machine."""
STEPS: dict[str, tuple[str, int, str]] = {
    "harness run --device b200 -- pytest tests": (
        "",
        1,
        f"WARNING  write-overlap  double_kernel  in test_double                   {BUG}",
    ),
    "harness fuzz fla:norm --with fla-core==0.6.0 --device b200,rtx-5090 --minutes 5": (
        "harness fuzz fla:norm --with fla-core==0.6.0 --device b200,rtx-5090 --cases 6 --seed 0",
        0,
        "no findings",
    ),
    "harness init": ("", 0, "wrote pyproject.toml"),
    "harness fuzz suites/mine.py --with ../my-library --cases 500": (
        "harness fuzz suites/mine.py --with ../my-library --cases 12 --seed 0",
        1,
        f"WARNING  write-overlap  double_kernel  in double                        {BUG}",
    ),
    "harness check answer.py problem.py": ("", 0, "sizes: n32 (predictions.0, labels.0): 1 to 2048"),
    "harness replay 88892a72": (f"harness replay {BUG}", 1, f"{BUG} fails again"),
    "harness keep 88892a72": (f"harness keep {BUG} && ls suites/regressions", 0, f"{BUG}.json"),
    "pytest suites": ("", 1, f" double[{BUG}] ".center(80, "_")),
}
"""By command of the README: the command that is run if it differs, its exit status, and a line that it prints."""


def commands_of_readme() -> tuple[str, ...]:
    """Return the commands of the section `Use`, without their comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Use\n\n```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return tuple(line.partition("#")[0].strip() for line in (section[1] if section else "").splitlines())


def blocks() -> Iterator[Block]:
    """Yield the files of the repository, and then each command and what it prints."""
    for folder in ("", "../my-library/"):
        yield _file(f"{folder}my_kernels/__init__.py", "")
        yield _file(f"{folder}my_kernels/doubling.py", KERNEL)
    yield _file("conftest.py", "")
    yield _file("tests/test_doubling.py", TEST)
    yield _command("git init -q", 0)
    for command, (shorter, status, line) in STEPS.items():
        if "mine.py" in command:
            yield _file("suites/mine.py", SUITE)
        if " check " in command:
            yield _file("answer.py", (ANSWERS / "hinge_right.py").read_text(encoding="utf-8"))
            yield _file("problem.py", (ANSWERS / "hinge_problem.py").read_text(encoding="utf-8"))
        yield _command(shorter or command, status)
        if line:
            yield Block(language="text", title="", text=line, note="")


def _file(path: str, text: str) -> Block:
    return Block(language="python", title=path, text=text, note="")


def _command(command: str, status: int) -> Block:
    return Block(language="sh", title="", text=command, note=f"exit status {status}")


def main() -> None:
    """Run every step; the first that does not do what it says ends the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bin", type=Path, required=True)
    given = parser.parse_args()
    repository = given.folder.absolute() / "mine"
    repository.mkdir()
    steps = Tutorial(repository, given.bin.absolute(), draws=False)
    for block in blocks():
        steps.follow(block)


if __name__ == "__main__":
    main()
