"""A parent process for tests to interrupt: `parent.py SCRATCH` runs a case that ends well, then one that never ends."""

import sys
from pathlib import Path

from harness.workers.pool import Pool
from tests.workers.setting import DEVICE, case, specs


def main(scratch: str) -> None:
    with Pool(specs(Path(scratch)), processes=2, time_limit_s=600) as pool:
        pool.prepare(DEVICE)
        pool.run(case("good"))
        pool.submit(case("hang_with_grandchild")).result()


if __name__ == "__main__":
    main(sys.argv[1])
