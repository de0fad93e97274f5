"""pytest's options that run again what failed: they select tests of suites, and these draw the same cases."""

import re

import pytest

from tests.cli.fake_engine import suite_of
from tests.pytest_plugin.test_suites import Finished, Repository

pytestmark = pytest.mark.slow

FAILED = [f"suites/norm.py::overlapping[{device}]" for device in ("b200", "rtx-pro-6000")]
PASSED = [f"suites/norm.py::faultless[{device}]" for device in ("b200", "rtx-pro-6000")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository after a run with two failures."""
    repository = Repository(tmp_path_factory.mktemp("repository"))
    repository.write("suites/norm.py", suite_of("faultless", "overlapping"))
    done = run(repository, "-n", "2")
    assert done.counts == "2 failed, 2 passed"
    return repository


def run(repository: Repository, *arguments: str) -> Finished:
    return repository.pytest("suites", "-m", "blackwell", *arguments, seed=None, keeps_cache=True)


def collected(repository: Repository, *arguments: str) -> list[str]:
    done = run(repository, "--collect-only", "-q", *arguments)
    return [line for line in done.out.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("options", "tests"),
    [
        (("--lf",), FAILED),
        (("--ff",), [*FAILED, *PASSED]),
        (("--lf", "-k", "b200"), FAILED[:1]),
        ((), [PASSED[0], FAILED[0], PASSED[1], FAILED[1]]),
    ],
)
def test_options_select_what_failed(repository: Repository, options: tuple[str, ...], tests: list[str]) -> None:
    assert collected(repository, *options) == tests


def seed_of(done: Finished) -> str:
    found = re.search(r"--harness-seed (\d+)", done.out)
    assert found is not None
    return found[1]


@pytest.mark.nightly
def test_what_failed_runs_again_with_the_same_seed(repository: Repository) -> None:
    first = run(repository, "-n", "2")
    again = run(repository, "--lf", "-n", "2")
    assert (again.counts, seed_of(again)) == ("2 failed", seed_of(first))
    alone = run(repository, "--lf")
    assert (alone.counts.partition(",")[0], seed_of(alone)) == ("2 failed", seed_of(first))
    assert seed_of(run(repository, "--collect-only")) != seed_of(first)


@pytest.mark.nightly
def test_a_stepwise_run_goes_on_at_the_failed_test(repository: Repository) -> None:
    stopped = run(repository, "--sw")
    assert stopped.counts.startswith("1 failed, 1 passed")
    assert collected(repository, "--sw") == [FAILED[0], PASSED[1], FAILED[1]]
