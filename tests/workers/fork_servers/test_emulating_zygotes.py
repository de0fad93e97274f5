"""Short-lived pools share a process that emulates their device, and nothing of each other's suites."""

import os
import signal
from pathlib import Path

import pytest

from harness.errors import WorkerError
from harness.model.run import Completed
from harness.workers.fork_servers.emulating_zygotes import EmulatingZygotes
from harness.workers.pool import Pool, PoolOptions
from tests.workers.setting import DEADLINE_S, DEVICE, case, specs, survivors

ENGINE = "tests.workers.engines:Moving"


@pytest.fixture
def zygotes() -> EmulatingZygotes:
    return EmulatingZygotes(("colorsys",), ENGINE)


def _pool(scratch: Path, zygotes: EmulatingZygotes, *confined: str) -> Pool:
    spec_of = specs(scratch, engine=ENGINE, confined_to=confined)
    return Pool(spec_of, processes=1, time_limit_s=DEADLINE_S, options=PoolOptions(shared_zygotes=zygotes))


def test_pools_share_the_emulation_and_have_folders_of_their_own(
    tmp_path: Path, folder: Path, mark: str, zygotes: EmulatingZygotes
) -> None:
    scratch, begun = tmp_path / "scratch", set[int | None]()
    for rows in (1, 2):
        written = tmp_path / str(rows)
        written.mkdir()
        with _pool(scratch, zygotes, str(written), str(folder)) as opened:
            assert opened.run(case("folders", rows)).ending == Completed()
            begun.add(zygotes.emulating(specs(scratch, engine=ENGINE)(DEVICE)).pid)
        cache = (folder / str(rows)).read_text(encoding="utf-8").splitlines()[1]
        assert Path(cache) == written / "triton"
    assert len(begun) == 1
    zygotes.close()
    assert survivors(mark) == []
    assert list(scratch.glob("pool-*")) == []


def test_a_pool_outlives_the_process_that_emulates(tmp_path: Path, mark: str, zygotes: EmulatingZygotes) -> None:
    scratch = tmp_path / "scratch"
    with _pool(scratch, zygotes) as opened:
        assert opened.run(case("good")).ending == Completed()
    killed = zygotes.emulating(specs(scratch, engine=ENGINE)(DEVICE)).pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    with _pool(scratch, zygotes) as opened:
        assert opened.run(case("good")).ending == Completed()
    zygotes.close()
    assert survivors(mark) == []


def test_a_module_that_is_missing_is_an_error_of_every_pool(tmp_path: Path, mark: str) -> None:
    zygotes = EmulatingZygotes(("no_such_module",), ENGINE)
    with _pool(tmp_path / "scratch", zygotes) as opened, pytest.raises(WorkerError, match="no_such_module"):
        opened.run(case("good"))
    zygotes.close()
    assert survivors(mark) == []
