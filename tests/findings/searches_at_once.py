"""A program: ten processes keep findings in one store at the same time.  Its argument is the store."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from harness.findings.search_log import SearchLog
from tests.findings.test_recorded_cases import CASE, FINDING
from tests.search.fakes import with_dims

SEARCHES, ROUNDS = 10, 5


def search(folder: Path, number: int) -> None:
    """See one bug in more and more cases, then confirm it, with a smaller case in every other search."""
    log = SearchLog(folder, lambda _: "text", {})
    signature = FINDING.fail.signature
    own = tuple(with_dims(T=100 + SEARCHES * round_number + number) for round_number in range(ROUNDS))
    for seen in range(1, ROUNDS + 1):
        log.keep(signature, replace(FINDING, confirmed=False, cases=(CASE, *own[:seen])))
    smallest = CASE if number % 2 else with_dims(T=number + 2)
    log.keep(signature, replace(FINDING, case=smallest, cases=(CASE, *own)))


def main() -> None:
    start_r, start_w = os.pipe()
    children: list[int] = []
    for number in range(SEARCHES):
        if (child := os.fork()) == 0:
            os.close(start_w)
            os.read(start_r, 1)  # ends when the parent closes its end, for all of them at once
            search(Path(sys.argv[1]), number)
            os._exit(0)
        children.append(child)
    os.close(start_w)
    sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))


if __name__ == "__main__":
    main()
