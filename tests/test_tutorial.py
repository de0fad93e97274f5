"""The tutorial's pictures and blocks agree; `ci/check_package.sh` runs the tutorial itself."""

import html
import re
from pathlib import Path

import pytest

from ci.tutorial import PAGE, PICTURES, blocks

BLOCKS = tuple(blocks(PAGE.read_text(encoding="utf-8")))
COMMANDS = [block.text.strip() for block in BLOCKS if block.language == "sh"]


def shown(picture: Path) -> str:
    """Return the text of a picture, without its line ends."""
    lines = re.findall(r"<text[^>]*>(.*?)</text>", picture.read_text(encoding="utf-8"))
    return html.unescape("".join(lines)).replace("\xa0", " ")


def test_the_tutorial_runs_every_command_but_the_installation() -> None:
    assert [command.split()[:2] for command in COMMANDS] == [
        ["git", "init"],
        ["harness", "fuzz"],
        ["harness", "keep"],
        ["pytest", "suites/regressions"],
        ["pytest", "suites"],
    ]


def test_blocks_outside_of_python_are_commands_or_output() -> None:
    assert {block.language for block in BLOCKS if not block.title} == {"sh", "text"}
    assert {block.language for block in BLOCKS if block.title} == {"python"}


@pytest.mark.parametrize("name", PICTURES.values())
def test_a_picture_shows_the_command_of_the_page(name: str) -> None:
    assert any(f"$ {command}" in shown(PAGE.parent / name) for command in COMMANDS)


def test_the_picture_of_the_finding_shows_what_the_page_quotes() -> None:
    picture = shown(PAGE.parent / "finding.svg")
    quoted = [line for block in BLOCKS if block.language == "text" for line in block.text.splitlines()]
    assert quoted
    assert [line for line in quoted if line not in picture] == []


@pytest.mark.parametrize("name", PICTURES.values())
def test_a_picture_requests_no_font(name: str) -> None:
    assert "url(http" not in (PAGE.parent / name).read_text(encoding="utf-8")
