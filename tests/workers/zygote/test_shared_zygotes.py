"""What pools have in common is loaded once, outlives each of them, and is gone when its owner says so."""

from pathlib import Path

import pytest

from harness.model.run import Completed
from harness.workers.pool import Pool
from harness.workers.zygote.shared_zygotes import SharedZygotes
from tests.workers.setting import DEADLINE_S, case, processes_marked, specs, survivors, survivors_beside_the_ground


def pool(scratch: Path, grounds: SharedZygotes, engine: str = "tests.workers.engines:Calling") -> Pool:
    return Pool(specs(scratch, engine=engine), processes=1, time_limit_s=DEADLINE_S, grounds=grounds)


def test_pools_one_after_the_other_load_what_they_have_in_common_once(scratch: Path, mark: str) -> None:
    grounds = SharedZygotes()
    begun: list[set[int]] = []
    for _ in range(2):
        with pool(scratch, grounds) as opened:
            assert opened.run(case("good")).ending == Completed()
        assert survivors_beside_the_ground(mark) == []
        begun.append({process.pid for process in processes_marked(mark)})
    assert len(grounds) == 1
    assert begun[0] == begun[1]
    grounds.close()
    assert survivors(mark) == []
    assert list(scratch.glob("pool-*")) == []


@pytest.mark.usefixtures("folder")
def test_pools_at_once_have_a_ground_for_each_engine(scratch: Path, mark: str) -> None:
    grounds = SharedZygotes()
    noting = "tests.workers.engines:Noting"
    with pool(scratch, grounds) as one, pool(scratch, grounds) as two, pool(scratch, grounds, noting) as other:
        assert [opened.run(case("good")).ending for opened in (one, two, other)] == [Completed()] * 3
    assert len(grounds) == 2
    grounds.close()
    assert survivors(mark) == []


def test_a_pool_that_is_closed_after_its_ground_leaves_nothing(scratch: Path, mark: str) -> None:
    grounds = SharedZygotes()
    opened = pool(scratch, grounds)
    assert opened.run(case("good")).ending == Completed()
    grounds.close()
    opened.close()
    assert survivors(mark) == []
    assert list(scratch.glob("pool-*")) == []
