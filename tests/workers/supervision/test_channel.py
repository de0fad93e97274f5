"""A channel ends its child, and no other process."""

import os
import subprocess
from collections.abc import Generator

import pytest

from harness.workers.supervision.channel import Channel, Exited, NoAnswer
from harness.workers.supervision.child_status import report
from tests.workers.setting import DEADLINE_S


@pytest.fixture
def bystander() -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    assert process.communicate(b"lives") == (b"lives", None)


@pytest.fixture
def status() -> Generator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    yield read_end, write_end
    os.close(write_end)


class TestAProcessThatTookAnEndedChildsIdLivesOn:
    """No child is forked: the status pipe reports the id of another process, which is in this one's group."""

    def test_after_the_end_was_read(self, bystander: subprocess.Popen[bytes], status: tuple[int, int]) -> None:
        channel = Channel.to_new_child(lambda _: status[0])
        report(status[1], bystander.pid)
        report(status[1], 3)
        assert channel.wait(DEADLINE_S) == Exited(code=3, unread=False)
        channel.kill()
        channel.close()

    def test_where_the_end_was_not_read_yet(self, bystander: subprocess.Popen[bytes], status: tuple[int, int]) -> None:
        channel = Channel.to_new_child(lambda _: status[0])
        report(status[1], bystander.pid)
        assert channel.wait(0.1) == NoAnswer()
        report(status[1], 3)
        channel.close()
