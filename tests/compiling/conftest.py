"""Children of compilers are checked as those of the workers are, and on the same GPU as cases."""

from tests.engines.cuda.conftest import gpu
from tests.workers.conftest import fifo, folder, mark, own_zygotes, scratch

__all__ = ["fifo", "folder", "gpu", "mark", "own_zygotes", "scratch"]
