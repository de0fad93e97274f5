"""Tensor maps: what a bulk copy moves, and how shared memory holds it."""

import numpy as np

from harness.engines.ptx.tensor_maps import TensorMap, encode

PADDED = TensorMap(
    address=1 << 36,
    element_bytes=1,
    kind="",
    extents=(64, 3),
    strides=(1, 64),
    box=(16, 2),
    swizzle=0,
    fills_with_nan=False,
    is_padded=True,
)


def test_a_padded_map_survives_its_encoding() -> None:
    assert TensorMap.decode(np.frombuffer(encode(PADDED), np.uint8)) == PADDED


def test_padding_follows_each_eight_bytes_and_is_not_counted() -> None:
    content = PADDED.padded(np.arange(1, 33, dtype=np.uint8).reshape(2, 16))
    nothing = [0] * 8
    assert content.tolist() == [
        [*range(1, 9), *nothing, *range(9, 17), *nothing],
        [*range(17, 25), *nothing, *range(25, 33), *nothing],
    ]
    assert PADDED.box_offsets().shape == content.shape
    assert PADDED.box_bytes == 32
