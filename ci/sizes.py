"""Report lines per Python file, largest first.  The report is no gate: a file is split by idea, not by line count.

python ci/sizes.py [--all]
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SHOWN = 8
ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print the report."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],  # noqa: S607 - git is where PATH says
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    lines = {file.relative_to(ROOT): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    rooms: dict[str, int] = defaultdict(int)
    for file, count in lines.items():
        rooms["/".join(file.parent.parts[:2]) or file.name] += count

    by_size = sorted(lines.items(), key=lambda item: -item[1])
    for file, count in by_size if "--all" in sys.argv else by_size[:SHOWN]:
        print(f"{count:6} {file}")
    print("  ".join(f"{room} {count}" for room, count in sorted(rooms.items())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
