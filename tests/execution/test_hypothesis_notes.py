"""`hypothesis.note` in an op is kept, in the installed release of Hypothesis."""

import subprocess
import sys

import pytest
from hypothesis import note
from hypothesis.errors import InvalidArgument

from harness.execution.hypothesis_notes import MOST_NOTES, noting


def test_notes_are_kept_in_order() -> None:
    notes: list[str] = []
    with noting(notes):
        note("first")
        note([1, 2])
    assert notes == ["first", "[1, 2]"]


def test_notes_outside_are_refused_as_before() -> None:
    with noting([]):
        pass
    with pytest.raises(InvalidArgument, match="outside of a test"):
        note("lost")


def test_a_loop_of_notes_is_cut_short() -> None:
    notes: list[str] = []
    with noting(notes):
        for number in range(MOST_NOTES + 5):
            note(str(number))
    assert len(notes) == MOST_NOTES


def test_hypothesis_is_not_imported_for_it() -> None:
    program = "import sys; from harness.execution.hypothesis_notes import noting\nwith noting([]): pass\n"
    program += "assert 'hypothesis' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
