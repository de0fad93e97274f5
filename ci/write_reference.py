"""Write the generated parts of the documentation: `python -m ci.write_reference`, or `make reference`.

A page has its generated parts between comments, `<!-- begin: devices -->` and `<!-- end: devices -->`.  The JSON Schema
files in `docs/reference/schemas` are generated whole.  `tests/test_docs.py` checks that all are current.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ci.reference import commands, lists, schemas, suite_api
from studies.contracts import __main__ as contracts

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands.command_list,
    "command-reference": commands.command_reference,
    "pytest-options": commands.pytest_options,
    "suite-api": suite_api.names,
    "kernel-test": suite_api.kernel_test,
    "run-api": suite_api.run,
    "check-api": suite_api.check,
    "op-arguments": suite_api.arguments_of_op,
    "oracles": lists.oracles,
    "devices": lists.devices,
    "exit-statuses": lists.exit_statuses,
    "json-files": schemas.kinds,
    "contracts": contracts.table,
}
"""By name, what makes each part."""
PART = re.compile(r"(<!-- begin: ([\w-]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def wanted() -> dict[Path, str]:
    """Return the text that each file with generated parts should have."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    pages = {path: _filled(text) for path, text in texts.items() if PART.search(text)}
    return {**pages, **{DOCS / "reference" / name: text for name, text in schemas.files().items()}}


def _filled(text: str) -> str:
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]().strip()}\n\n{part[3]}", text)


def main() -> None:
    """Write every file that is not current, and print its name."""
    for path, text in wanted().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
