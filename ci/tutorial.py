"""Run the tutorial as its page says: write its files, run its commands, compare what they print.

    python ci/tutorial.py FOLDER [--bin ENVIRONMENT/bin] [--pictures] [--limit-s 300]

`FOLDER` is empty.  `--bin` has the commands `harness` and `pytest`; by default it is that of this Python.  A comment
before a block gives the exit status of its last command, or leaves the block out.  Blocks of text must be part of what
the command before them has printed.  `--pictures` writes the pictures of the page anew.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial" / "README.md"
BLOCK = re.compile(
    r"(?:^<!-- tutorial: (?P<note>[^\n]*) -->\n)?"
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
PICTURES = {"harness fuzz": "finding.svg", "pytest suites --harness-with": "guarded.svg"}
"""The picture of what each command prints, by how the command begins."""
WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of the page."""

    language: str
    title: str
    """The file that the block is; empty for commands and output."""
    text: str
    note: str
    """The comment before it."""

    @property
    def exit_status(self) -> int:
        return int(self.note.removeprefix("exit status ")) if self.note else 0


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of the page that are to be run, written or compared."""
    for found in BLOCK.finditer(page):
        block = Block(
            language=found["language"], title=found["title"] or "", text=found["text"], note=found["note"] or ""
        )
        if block.note != "skip":
            yield block


class Tutorial:
    """A run of the tutorial in a folder."""

    def __init__(self, folder: Path, commands: Path, *, draws: bool) -> None:
        self._folder = folder
        self._draws = draws
        self._printed = ""
        """By the last command, without colours."""
        self._environment = {
            **os.environ,
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": str(WIDTH),
            "FORCE_COLOR": "1",
        }
        for name in ("PYTEST_ADDOPTS", "NO_COLOR"):
            self._environment.pop(name, None)

    def follow(self, block: Block) -> None:
        """Do what a block says.

        Raises:
            SystemExit: a command ends otherwise than the page says, or prints something else.
        """
        if block.title:
            path = self._folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            self._run(block)
        elif block.language == "text":
            self._compare(block.text)

    def _run(self, block: Block) -> None:
        command = block.text.strip()
        print(f"$ {command}", flush=True)
        begun = time.monotonic()
        done = subprocess.run(
            ("/bin/bash", "-ec", command),
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self._printed = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
        print(f"    exit status {done.returncode} after {time.monotonic() - begun:.0f} s", flush=True)
        if done.returncode != block.exit_status:
            sys.exit(f"exit status {done.returncode} instead of {block.exit_status}:\n{done.stdout}\n{done.stderr}")
        for beginning, name in PICTURES.items():
            if self._draws and command.startswith(beginning):
                draw(command, done.stdout.replace(str(self._folder), "~/kernels"), PAGE.parent / name)

    def _compare(self, text: str) -> None:
        for line in text.splitlines():
            if line not in self._printed.splitlines():
                sys.exit(f"the page says {line!r}, and the command printed:\n{self._printed}")


def draw(command: str, printed: str, picture: Path) -> None:
    """Write a picture of a terminal with a command and what it printed."""
    from rich._export_format import CONSOLE_SVG_FORMAT  # noqa: PLC0415 - only for pictures
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # Without the addresses of fonts: a page must not request another server.
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text(f"$ {command}\n", style="bold"))
        console.print(Text.from_ansi(printed))
        picture.write_text(console.export_svg(title="", code_format=form, unique_id=picture.stem), encoding="utf-8")


def main() -> None:
    """Run the whole tutorial."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent)
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--limit-s", type=float, default=300)
    given = parser.parse_args()
    if any(given.folder.iterdir()):
        sys.exit(f"{given.folder} is not empty")
    begun = time.monotonic()
    tutorial = Tutorial(given.folder.absolute(), given.bin.absolute(), draws=given.pictures)
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        tutorial.follow(block)
    took = time.monotonic() - begun
    print(f"the tutorial took {took:.0f} s")
    if took > given.limit_s:
        sys.exit(f"the tutorial took longer than {given.limit_s:.0f} s")


if __name__ == "__main__":
    main()
