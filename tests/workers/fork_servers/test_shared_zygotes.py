"""Pools share zygotes, which outlive them and end when their owner closes them."""

from pathlib import Path

import pytest

from harness.model.run import Completed
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.pool import Pool, PoolOptions
from tests.workers.setting import (
    DEADLINE_S,
    case,
    processes_marked,
    specs,
    survivors,
    survivors_besides_the_shared_zygote,
)


def pool(scratch: Path, zygotes: SharedZygotes, engine: str = "tests.workers.engines:Calling") -> Pool:
    return Pool(
        specs(scratch, engine=engine), processes=1, time_limit_s=DEADLINE_S, options=PoolOptions(shared_zygotes=zygotes)
    )


@pytest.mark.nightly
def test_successive_pools_share_one_zygote(scratch: Path, mark: str) -> None:
    zygotes = SharedZygotes()
    begun: list[set[int]] = []
    for _ in range(2):
        with pool(scratch, zygotes) as opened:
            assert opened.run(case("good")).ending == Completed()
        assert survivors_besides_the_shared_zygote(mark) == []
        begun.append({process.pid for process in processes_marked(mark)})
    assert len(zygotes) == 1
    assert begun[0] == begun[1]
    zygotes.close()
    assert survivors(mark) == []
    assert list(scratch.glob("pool-*")) == []


@pytest.mark.nightly
@pytest.mark.usefixtures("folder")
def test_simultaneous_pools_have_a_zygote_for_each_engine(scratch: Path, mark: str) -> None:
    zygotes = SharedZygotes()
    noting = "tests.workers.engines:Noting"
    with pool(scratch, zygotes) as one, pool(scratch, zygotes) as two, pool(scratch, zygotes, noting) as other:
        assert [opened.run(case("good")).ending for opened in (one, two, other)] == [Completed()] * 3
    assert len(zygotes) == 2
    zygotes.close()
    assert survivors(mark) == []


def test_a_pool_closed_after_its_zygote_leaves_nothing(scratch: Path, mark: str) -> None:
    zygotes = SharedZygotes()
    opened = pool(scratch, zygotes)
    assert opened.run(case("good")).ending == Completed()
    zygotes.close()
    opened.close()
    assert survivors(mark) == []
    assert list(scratch.glob("pool-*")) == []


def test_pools_of_two_folders_share_a_zygote_and_nothing_else(
    tmp_path: Path, folder: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygotes = SharedZygotes()
    for rows, name in ((1, "first"), (2, "second")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        scratch = tmp_path / name / "scratch"
        with pool(scratch, zygotes) as opened:
            assert opened.run(case("folders", rows)).ending == Completed()
        working, cache, temporary = (folder / str(rows)).read_text(encoding="utf-8").splitlines()
        assert (Path(working), Path(cache)) == (tmp_path / name, scratch / "triton")
        assert Path(temporary).is_relative_to(scratch)
    assert len(zygotes) == 1
    zygotes.close()
    assert survivors(mark) == []
