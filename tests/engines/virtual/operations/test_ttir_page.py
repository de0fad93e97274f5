"""`docs/reference/ttir.md` lists the operations that the machine executes."""

import re
from pathlib import Path

from harness.engines.virtual.operations.table import HANDLERS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "ttir.md"


def test_the_page_lists_exactly_the_supported_operations() -> None:
    runs = PAGE.read_text(encoding="utf-8").partition("## Runs")[2].partition("\nBranches")[0]
    assert sorted(re.findall(r"`([a-z]+\.[\w.]+)`", runs)) == sorted(HANDLERS)
