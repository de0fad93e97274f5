"""`harness findings --explain`: every oracle has a page, in the wheel too."""

import tomllib
from pathlib import Path

import pytest

from harness.cli import main
from harness.oracles import registry
from harness.reports.oracle_pages import IN_CHECKOUT, NAME, page_of
from tests.planted.test_planted import ON_HARDWARE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("oracle", [oracle.name for oracle in registry.ALL])
def test_every_oracle_has_a_page_without_markup(oracle: str) -> None:
    page = page_of(oracle)
    assert page.paragraphs
    assert page.example or oracle in ON_HARDWARE
    text = "\n".join(page.paragraphs)
    assert not {"<!--", "](", "```"} & {mark for mark in ("<!--", "](", "```") if mark in text}


def test_an_oracle_is_explained_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", "--explain", "unwritten"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[:2]) == f"unwritten: {registry.find('unwritten').promise}"
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("  explain        harness findings --explain unwritten")


def test_an_unknown_oracle_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", "--explain", "unwriten"]) == 2
    assert "unknown oracle 'unwriten': did you mean unwritten?" in capsys.readouterr().err


def test_the_wheel_has_the_page() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    included = build["targets"]["wheel"]["force-include"]
    assert included[str(IN_CHECKOUT.relative_to(ROOT))] == f"harness/reports/{NAME}"
