"""`harness keep`."""

import argparse
import json
from pathlib import Path

from harness.cli.command import CLEAN, STORE, Parser, add_libraries
from harness.errors import ReplayError
from harness.findings import store
from harness.findings.replay import read_finding

REGRESSIONS = Path("suites", "regressions")
KEYS = ("format", "id", "oracle", "severity", "kernel", "op", "place", "signature", "message", "case", "needs", "with")
"""What a replay needs, and a line for who reads it: no pictures, and no paths of the machine that found it."""


def keep(given: argparse.Namespace) -> int:
    """Copy a finding to where every run of pytest replays it first."""
    path = store.locate(given.finding, STORE)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        finding = read_finding(document)
    except (OSError, ValueError, ReplayError) as error:
        raise ReplayError(f"{path}: {error}") from None
    kept_document = {key: document[key] for key in KEYS if key in document}
    if given.libraries:
        kept_document["with"] = list(given.libraries)
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{finding.id}.json"
    kept.write_text(json.dumps(kept_document, indent=2) + "\n", encoding="utf-8")
    print(kept)
    return CLEAN


def add_options(parser: Parser) -> None:
    """The options of `harness keep`."""
    parser.add_argument("finding", metavar="ID|FILE", help="the id of a finding, or its file or folder")
    parser.add_argument("--in", dest="folder", default=str(REGRESSIONS), metavar="FOLDER", help="usually %(default)s")
    add_libraries(parser)
