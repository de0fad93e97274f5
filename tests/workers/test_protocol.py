"""Frames survive any splitting, and other bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import WorkerError
from harness.workers.protocol import HEAD, Frame, FrameKind, Inbox

FRAMES = st.lists(st.builds(Frame, st.sampled_from(FrameKind), st.binary(max_size=40)))


@given(frames=FRAMES, pieces=st.lists(st.integers(1, 20)))
def test_frames_arrive_whole_and_in_order_however_they_are_split(frames: list[Frame], pieces: list[int]) -> None:
    wire = b"".join(HEAD.pack(frame.kind, len(frame.payload)) + frame.payload for frame in frames)
    inbox = Inbox()
    arrived: list[Frame] = []
    for size in [*pieces, len(wire)]:
        inbox.add(wire[:size])
        wire = wire[size:]
        while frame := inbox.take():
            arrived.append(frame)
    assert arrived == frames


def test_bytes_that_are_no_frame_break_the_protocol() -> None:
    inbox = Inbox()
    inbox.add(b"hello from a kernel")
    with pytest.raises(WorkerError, match="its message begins with b'hello from a ker'"):
        inbox.take()
