"""The settings of a process, as environment variables choose them."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.settings import USUAL_RESIDENT_MINUTES, Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    of_a_command = replace(Settings(), resident_minutes=USUAL_RESIDENT_MINUTES)
    assert Settings.from_environment({}) == Settings.from_environment({"HARNESS_CACHE": ""}) == of_a_command


def test_the_cache_is_where_the_user_says(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "xdg")}
    caches = [
        Settings.from_environment(environment).cache,
        Settings.from_environment({**environment, "HARNESS_CACHE": str(tmp_path / "own")}).cache,
        Settings.from_environment({"HARNESS_CACHE": "~/own"}).cache,
    ]
    assert caches == [tmp_path / "xdg" / "kernel-harness", tmp_path / "own", Path.home() / "own"]


def test_the_runtime_folder_counts_only_if_it_exists(tmp_path: Path) -> None:
    folders = [Settings.from_environment({"XDG_RUNTIME_DIR": str(path)}).runtime for path in (tmp_path, "/no/such")]
    assert folders == [tmp_path, None]


def test_a_leases_folder_and_the_workers_of_xdist_are_read() -> None:
    settings = Settings.from_environment({"HARNESS_LEASES": "/tmp/leases", "PYTEST_XDIST_WORKER_COUNT": "4"})
    assert (settings.leases, settings.pytest_workers) == (Path("/tmp/leases"), 4)


def test_the_limit_of_compilations_is_a_number_of_seconds() -> None:
    assert Settings.from_environment({"HARNESS_COMPILE_LIMIT_S": "7.5"}).compile_limit_s == 7.5
    for text in ("long", "0", "-1"):
        with pytest.raises(UsageError, match=f"HARNESS_COMPILE_LIMIT_S={text}: write a number"):
            Settings.from_environment({"HARNESS_COMPILE_LIMIT_S": text})
