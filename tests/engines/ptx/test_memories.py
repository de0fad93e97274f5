"""Global memory: which region an address belongs to."""

import numpy as np

from harness.engines.ptx.memories import GlobalMemory

SIZE = 256
PLACES = (0x7F12_3456_0000, 0x7F12_3456_2000)
"""Two storages of this process, near each other as an allocator leaves them."""


def test_storages_that_lie_near_each_other_are_all_found() -> None:
    memory = GlobalMemory()
    asked = list[int]()

    def find(address: int) -> bool:
        asked.append(address)
        begin = next((place for place in PLACES if place <= address < place + SIZE), None)
        if begin is not None:
            memory.add("found", np.zeros(SIZE, np.uint8), address=begin)
        return begin is not None

    memory.find = find
    for place in PLACES:
        (part,), stray = memory.parts(np.array([place, place + SIZE - 4]), 4)
        assert stray is None
        assert part.region.address == place
    assert asked == list(PLACES)
    _, stray = memory.parts(np.array([PLACES[0] + SIZE]), 4)
    assert stray is not None
