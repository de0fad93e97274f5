"""Write the examples of the page that explains findings: `python -m ci.oracle_examples [ORACLE|SUITE…]`.

Each example is what `harness fuzz` prints for a planted bug of `suites/planted`: the whole finding, at 80 columns.  The
four oracles that need a GPU have no example.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-to" / "read-a-finding.md"
PLANTED = ROOT / "suites" / "planted"
DEVICE = "rtx-pro-6000"
EXAMPLE = re.compile(r"(<!-- (?:example|planted): ([\w-]+) -->\n```text\n).*?(```\n)", re.DOTALL)
CHOSEN = frozenset(
    {
        "overridden_config",
        "shared_config",
        "out_of_bounds_store",
        "grid_barrier",
        "rows_along_y",
        "false_contiguity",
        "mean_read_early",
        "first_config_too_large",
        "shifted_reload",
        "tuned_in_place",
        "uninitialised_read",
        "unwritten_tail",
        "overlapping_store",
        "dropped_term",
        "split_by_rows",
        "halved_bits",
    }
)
"""The suites of the examples, where several show the same oracle."""

FURTHER = ("overwritten_pool", "summed_blocks", "unordered_streams")
"""Suites that show an oracle fail in another way.  The page names them instead of the oracle."""


def suites() -> dict[str, tuple[str, int, str]]:
    """Return the suite of each oracle's example, the number of cases that find it, and the engine."""
    found: dict[str, tuple[str, int, str]] = {}
    for path in sorted(PLANTED.glob("*.py")):
        stated = _constants(path)
        oracle = str(stated["ORACLE"])
        if oracle not in found or found[oracle][0] not in CHOSEN:
            found[oracle] = (path.stem, int(stated.get("CASES", 24)), str(stated.get("ENGINE", "virtual")))
    return found


def further() -> dict[str, tuple[str, str, int, str]]:
    """Return oracle, suite, number of cases and engine of each further example, by its name on the page."""
    stated = {suite: _constants(PLANTED / f"{suite}.py") for suite in FURTHER}
    return {
        suite: (str(each["ORACLE"]), suite, int(each.get("CASES", 24)), "virtual") for suite, each in stated.items()
    }


def _constants(path: Path) -> dict[str, str | int]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {
        name: value
        for node in body
        if isinstance(node, ast.Assign)
        for name, value in [(ast.unparse(node.targets[0]), _literal(node.value))]
        if value is not None
    }


def _literal(node: ast.expr) -> str | int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str | int) else None


def example(oracle: str, suite: str, cases: int, engine: str) -> str:
    """Return the first finding that the oracle prints."""
    command = ("fuzz", f"planted:{suite}", "--op", suite, "--oracle", oracle, "--device", DEVICE, "--engine", engine)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            (sys.executable, "-m", "harness.cli", *command, "--cases", str(cases), "--seed", "1"),
            cwd=folder,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    printed = done.stdout.replace(f"{ROOT}/", "")
    findings = re.split(r"^(?=(?:ERROR|WARNING) )", printed, flags=re.MULTILINE)[1:]
    shown = next((text for text in findings if text.split()[1] == oracle), None)
    if shown is None:
        sys.exit(f"{oracle}: {suite} shows no such finding:\n{done.stdout}{done.stderr}")
    return re.split(r"^checked: ", shown, flags=re.MULTILINE)[0].rstrip() + "\n"


def main() -> None:
    """Replace the examples of these names, by default of all that need no GPU."""
    known = {oracle: (oracle, *suite) for oracle, suite in suites().items()} | further()
    for name in sys.argv[1:] or known:
        text = example(*known[name])
        print(text, flush=True)
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            EXAMPLE.sub(lambda part: f"{part[1]}{text}{part[3]}" if part[2] == name else part[0], page),  # noqa: B023 - used at once
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
