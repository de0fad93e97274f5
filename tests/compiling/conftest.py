"""Children of compilers are checked as those of the workers are."""

from tests.workers.conftest import fifo, folder, mark, own_zygotes, scratch

__all__ = ["fifo", "folder", "mark", "own_zygotes", "scratch"]
