"""Suites and folders that are wrong, as whoever types a command meets them: one line, and exit status 2."""

from pathlib import Path

import pytest

from tests.cli.fake_engine import suite_of
from tests.cli.test_cli import ON, Place

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            suite_of("faultless", options=', refuse=("ValueError",)'),
            "wrong.py: op 'faultless' has an unknown argument 'refuse': did you mean refuses or requires?",
        ),
        (
            suite_of("faultless", options=', where=lambda at: at["T"] < 20 or at["K"] > 1'),
            "wrong.py: op 'faultless' asks in `where` for an unknown name 'K': known: D, G, T",
        ),
        (
            suite_of("faultless", options=', waives=("order-invariant",)'),
            "wrong.py: op 'faultless' waives an unknown oracle 'order-invariant': did you mean order-invariance",
        ),
        (
            "import pytest\nfrom harness import suite\npytest.importorskip('no_such_kernels')\n",
            "wrong.py fails on import: Skipped: could not import 'no_such_kernels'",
        ),
        ("import sys\nfrom harness import suite\nsys.exit(0)\n", "wrong.py fails on import: SystemExit: 0"),
    ],
)
def test_a_wrong_suite_is_told_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    place = Place(tmp_path)
    place.write("wrong.py", text)
    said = place.harness("fuzz", "wrong.py", "--cases", "5", *ON)
    assert (said.status, said.out, len(said.err.splitlines())) == (2, "", 1), said.err
    assert said.err.startswith(f"harness: {line}")


@pytest.mark.parametrize("blocked", ["a file", "nothing may be made", "nothing may be made in it"])
def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, blocked: str) -> None:
    place = Place(tmp_path)
    suite = tmp_path / "norm.py"
    place.write("norm.py", suite_of("faultless"))
    match blocked:
        case "a file":
            place.write(".harness", "")
        case "nothing may be made":
            place = Place(Path("/proc"))  # where root may make nothing, either
        case _:
            (tmp_path / ".harness").symlink_to("/proc")
    said = place.harness("fuzz", str(suite), "--cases", "5", *ON)
    assert (said.status, said.out, len(said.err.splitlines())) == (2, "", 1), said.err
    assert said.err.startswith(f"harness: cannot write to {place.folder / '.harness'}: ")
