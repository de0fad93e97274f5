"""Global memory: which region an address belongs to."""

import numpy as np
import pytest

from harness.engines.ptx.memories import GlobalMemory
from harness.engines.ptx.whole_words import WholeWords

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


@pytest.mark.parametrize(("offset", "size", "belongs"), [(76, 4, True), (76, 2, True), (78, 2, False), (76, 8, False)])
def test_the_last_word_of_a_storage_is_whole(offset: int, size: int, *, belongs: bool) -> None:
    memory = GlobalMemory()
    words = WholeWords.around(np.zeros(78, np.uint8))
    region = memory.add("x", words.content, filler_bytes=words.filler_bytes)
    _, stray = memory.parts(np.array([region.address + offset]), size)
    assert (stray is None) is belongs


def test_what_a_launch_writes_to_whole_words_is_written_back() -> None:
    storage = np.zeros(6, np.uint8)
    words = WholeWords.around(storage)
    words.content[:] = 7
    words.write_back()
    assert storage.tolist() == [7] * 6
