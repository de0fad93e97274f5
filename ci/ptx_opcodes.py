"""`python -m ci.ptx_opcodes FOLDER …`: write the opcodes of compiled kernels into `docs/reference/ptx.md`.

The folders are searched for `*.ptx`: text, or what the PTX engine keeps of a build.  Opcodes that the page has already
stay there.  The command fails for an opcode that the PTX machine does not execute.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from harness.engines.ptx.ptx_text import parse
from harness.engines.ptx.wave_runner import PreparedKernel
from harness.errors import CannotExecute

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "ptx.md"
BEGIN, END = "<!-- opcodes -->", "<!-- end of opcodes -->"
_SHAPE = re.compile(r"\bm(\d+)n\d+k(\d+)\b")
_ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)


def texts(folders: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield the PTX of each build."""
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.ptx")):
            text = path.read_text(encoding="utf-8")
            yield path, json.loads(text)["ptx"] if text.startswith("{") else text


def known() -> dict[str, set[str]]:
    """Return the opcodes on the page, by root."""
    forms: dict[str, set[str]] = defaultdict(set)
    part = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    for root, listed in _ROW.findall(part):
        forms[root] |= set(re.findall(r"`([^`]+)`", listed))
    return forms


def normalised(opcode: str) -> str:
    """Return an opcode with the width of a product left out: there are dozens."""
    return _SHAPE.sub(r"m\1nNk\2", opcode)


def main() -> int:
    forms, failed, count = known(), dict[str, str](), 0
    for path, text in texts(sys.argv[1:]):
        try:
            kernel = parse(text)
            PreparedKernel(kernel)
        except CannotExecute as error:
            failed[error.what] = str(path)
            continue
        count += 1
        for instruction in kernel.instructions:
            forms[instruction.root].add(normalised(instruction.opcode))
    rows = [f"| `{root}` | {', '.join(f'`{form}`' for form in sorted(forms[root]))} |" for root in sorted(forms)]
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    table = "\n".join(["| root | forms |", "| -- | -- |", *rows])
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(f"{count} kernels, {sum(map(len, forms.values()))} opcodes")
    for what, path in failed.items():
        print(f"not executed: {what} ({path})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
