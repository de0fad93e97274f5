"""Places of failures stay the same when comments, a formatter or other functions move their lines."""

from pathlib import Path

import pytest

from harness.model.ending import Source
from harness.oracles.lasting_places import lasting_place

PLAIN = """\
def kernel(X, Y, N):
    x = load(X + N, mask=cols < N, other="a")
    if N > 1:
        store(Y + N, x)
    store(Y + N, x)


def helper(p, q):
    return load(p + (q * 2))
"""
FORMATTED = """\
# A comment of the file.


def other(renamed):
    return renamed


def helper(p, q):
    return load(p + q * 2)  # read it


def kernel(X, Y, N):
    x = load(
        X + N,
        # The last block is cut.
        mask=cols < N,
        other='a',
    )

    if (N > 1):
        store(Y + N, x,
        )
    store(
        Y
        + N, x
    )
"""


def line_of(text: str, part: str, number: int = 1) -> int:
    """Return the number of the `number`-th line that contains a part."""
    return [line for line, content in enumerate(text.splitlines(), 1) if part in content][number - 1]


def place_at(folder: Path, text: str, line: int, kernel: str = "kernel") -> str:
    folder.mkdir(exist_ok=True)
    file = folder / "norm.py"
    file.write_text(text)
    source = Source(file=str(file), line=line)
    return lasting_place(f"deadlock ({source})", source, kernel)


@pytest.mark.parametrize(
    ("plain", "formatted", "statement"),
    [
        (("mask",), ("mask",), "x = load(X + N, mask=cols < N, other='a')"),
        (("if N",), ("if (N",), "if N > 1:"),
        (("store",), ("store",), "store(Y + N, x)"),
        (("store", 2), ("+ N, x", 2), "store(Y + N, x) #2"),
        (("p + (q",), ("p + q",), "helper: return load(p + q * 2)"),
    ],
)
def test_places_outlive_comments_formatters_and_moves(
    tmp_path: Path, plain: tuple[str, int], formatted: tuple[str, int], statement: str
) -> None:
    before = place_at(tmp_path / "one", PLAIN, line_of(PLAIN, *plain))
    after = place_at(tmp_path / "other", FORMATTED, line_of(FORMATTED, *formatted))
    assert before == after == f"deadlock (norm.py: {statement})"


def test_long_statements_are_cut_and_still_told_apart(tmp_path: Path) -> None:
    texts = [f"store({' + '.join(['pointer'] * 30)} + {last})\n" for last in "ab"]
    places = [place_at(tmp_path, text, 1) for text in texts]
    assert len(set(places)) == 2
    assert all(len(place) < 120 for place in places)


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    first = place_at(tmp_path, "store(a)\n", 1)
    assert (first, place_at(tmp_path, "store(bb)\n", 1)) == (
        "deadlock (norm.py: store(a))",
        "deadlock (norm.py: store(bb))",
    )


@pytest.mark.parametrize("text", ["def (", "store(a)\n"])
def test_places_without_a_readable_statement_keep_their_line(tmp_path: Path, text: str) -> None:
    assert place_at(tmp_path, text, 7) == "deadlock (norm.py:7)"


def test_statements_of_generated_kernels_stay_out_of_places(tmp_path: Path) -> None:
    assert place_at(tmp_path, "tmp0 = load(a)\n", 1, "triton_red_fused_sum_0") == "deadlock (norm.py)"
