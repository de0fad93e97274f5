"""What nights say of a bug: new, still there, back, flaky, gone, not looked for."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.finding import ReplayCount, Symptom
from harness.night.bug_history import BugState
from tests.night.nights import CONFIRMED, Nights


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(folder=tmp_path)


def test_a_bug_is_new_in_its_first_night_and_there_in_the_next(nights: Nights) -> None:
    nights.run("1", looks=False)
    nights.run("2", sees=CONFIRMED)
    assert (nights.bug.state, nights.bug.first) == (BugState.NEW, "2")
    nights.run("3", sees=CONFIRMED)
    assert (nights.bug.state, nights.bug.first, nights.bug.last) == (BugState.STILL_THERE, "2", "3")


def test_a_bug_is_gone_once_its_case_ran_and_did_not_show_it(nights: Nights) -> None:
    nights.run("1", sees=CONFIRMED)
    nights.run("2", looks=False, release="lib 1.1", digest="b2")
    assert nights.bug.state is BugState.NOT_LOOKED_FOR
    nights.run("3", release="lib 1.2", digest="c3")
    nights.run("4", release="lib 1.3", digest="d4")
    bug = nights.bug
    assert (bug.state, bug.gone_since, bug.gone_with, bug.releases) == (BugState.GONE, "3", "lib 1.2", ("lib 1.0",))
    assert nights.history.gone_now == ()


def test_a_bug_that_was_gone_is_back(nights: Nights) -> None:
    nights.run("1", sees=CONFIRMED)
    nights.run("2", digest="b2")
    assert nights.history.gone_now == (nights.bug,)
    nights.run("3", sees=CONFIRMED, digest="c3")
    assert nights.bug.state is BugState.BACK
    nights.run("4", sees=CONFIRMED, digest="c3")
    assert nights.bug.state is BugState.STILL_THERE


def test_a_bug_that_comes_and_goes_with_equal_sources_is_flaky(nights: Nights) -> None:
    for number, sees in enumerate((True, False, True)):
        nights.run(str(number), sees=CONFIRMED if sees else None)
    assert (nights.bug.state, nights.bug.nights_looked, len(nights.bug.nights)) == (BugState.FLAKY, 3, 2)
    nights.run("3")
    nights.run("4")
    assert nights.bug.state is BugState.FLAKY
    nights.run("5")
    assert (nights.bug.state, nights.bug.gone_since) == (BugState.GONE, "3")


def test_a_case_that_shows_a_bug_at_times_is_no_proof_that_it_is_gone(nights: Nights) -> None:
    nights.run("1", sees=replace(CONFIRMED, repeats=ReplayCount(shown=2, runs=5)))
    nights.run("2")
    assert nights.bug.state is BugState.FLAKY


def test_a_bug_is_gone_when_no_search_shows_it(nights: Nights) -> None:
    nights.run("1", sees=CONFIRMED, search="old release")
    nights.run("1", sees=CONFIRMED, search="checkout")
    nights.run("2", sees=CONFIRMED, search="old release")
    nights.run("2", search="checkout", digest="fixed")
    assert nights.bug.state is BugState.STILL_THERE
    nights.run("3", search="old release", digest="fixed")
    assert (nights.bug.state, nights.bug.gone_since) == (BugState.GONE, "3")


def test_a_bug_of_two_searches_is_open_while_one_has_not_looked(nights: Nights) -> None:
    nights.run("1", sees=CONFIRMED, search="old release")
    nights.run("1", sees=CONFIRMED, search="checkout")
    nights.run("2", search="checkout", digest="fixed")
    assert nights.bug.state is BugState.NOT_LOOKED_FOR


def test_units_know_what_was_tried_and_which_draws_come_next(nights: Nights) -> None:
    nights.run("1")
    nights.run("2", release="lib 2.0")
    (unit,) = nights.history.units.values()
    assert (unit.nights, unit.cases, unit.release, unit.last, unit.next_block) == (2, 6, "lib 2.0", "2", 1)


def test_a_bug_that_turns_out_to_be_a_symptom_is_none_of_its_own(nights: Nights) -> None:
    other = replace(CONFIRMED, fail=replace(CONFIRMED.fail, signature=replace(CONFIRMED.fail.signature, place="y")))
    nights.run("1", sees=other)
    assert [bug.id for bug in nights.history.bugs] == [other.id]
    symptom = Symptom(signature=other.fail.signature, message="y is wrong", sightings=1)
    nights.run("2", sees=replace(CONFIRMED, symptoms=(symptom,)))
    assert [bug.id for bug in nights.history.bugs] == [CONFIRMED.id]
    nights.run("3", sees=other)
    assert {bug.id for bug in nights.history.bugs} == {CONFIRMED.id, other.id}
