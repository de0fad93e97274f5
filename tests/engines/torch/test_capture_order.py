"""Streams of a capture: who takes part, in which order steps may run, and which errors CUDA gives."""

import pytest
import torch

from harness.engines.torch.capture_order import DEFAULT_STREAM, CaptureOrder

ORIGIN, SIDE, OTHER = 1, 2, 3


def wait(order: CaptureOrder, stream: int, for_stream: int) -> None:
    point = order.point(for_stream)
    assert point is not None
    order.wait(stream, point.steps)


def forked() -> CaptureOrder:
    """Return a capture of one step on the origin, and then one on each of two streams."""
    order = CaptureOrder(ORIGIN)
    order.add_step(ORIGIN)
    wait(order, SIDE, ORIGIN)
    order.add_step(ORIGIN)
    order.add_step(SIDE)
    return order


def test_a_stream_takes_part_once_it_waits_for_the_capture() -> None:
    order = CaptureOrder(ORIGIN)
    assert [order.has(stream) for stream in (ORIGIN, SIDE)] == [True, False]
    assert order.point(SIDE) is None
    wait(order, SIDE, ORIGIN)
    assert order.has(SIDE)


def test_branches_may_run_in_either_order() -> None:
    order = forked()
    wait(order, ORIGIN, SIDE)
    order.add_step(ORIGIN)
    order.end(ORIGIN)
    assert order.other_orders() == ([0, 2, 1, 3],)


def test_steps_of_one_stream_keep_their_order() -> None:
    order = CaptureOrder(ORIGIN)
    for _ in range(3):
        order.add_step(ORIGIN)
    order.end(ORIGIN)
    assert order.other_orders() == ()


def test_streams_take_turns_in_one_order() -> None:
    order = CaptureOrder(ORIGIN)
    wait(order, SIDE, ORIGIN)
    for stream in (ORIGIN, ORIGIN, SIDE, SIDE):
        order.add_step(stream)
    wait(order, ORIGIN, SIDE)
    order.end(ORIGIN)
    assert order.other_orders() == ([0, 2, 1, 3], [2, 3, 0, 1])


def test_a_stream_that_nothing_waits_for_fails_the_capture() -> None:
    with pytest.raises(torch.AcceleratorError, match="CUDA error: capturing stream has unjoined work"):
        forked().end(ORIGIN)


def test_a_stream_joins_by_way_of_another() -> None:
    order = forked()
    wait(order, OTHER, SIDE)
    wait(order, ORIGIN, OTHER)
    order.end(ORIGIN)


def test_the_default_stream_cannot_wait_for_a_capture() -> None:
    order = forked()
    with pytest.raises(torch.AcceleratorError, match="legacy stream depend on a capturing"):
        wait(order, DEFAULT_STREAM, SIDE)
    wait(order, ORIGIN, SIDE)
    with pytest.raises(torch.AcceleratorError, match="due to a previous error during capture"):
        order.end(ORIGIN)


def test_a_capture_ends_on_the_stream_where_it_began() -> None:
    with pytest.raises(RuntimeError, match="must end on the same stream"):
        forked().end(SIDE)
