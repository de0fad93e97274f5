"""A suite, an engine and self-tests for workers under the fake compute-sanitizer: ops choose its reports."""

import os
import time
from pathlib import Path

from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Launch, Run
from harness.suite import Declaration, op, tokens
from tests.workers.engines import Calling

RECORD = """  <record>
    <kind>Precise</kind>
    <level>Error</level>
    <who><threadIdx><x>{x}</x><y>0</y><z>0</z></threadIdx><blockIdx><x>3</x><y>0</y><z>0</z></blockIdx></who>
    <what><text>Invalid __global__ write of size 4 bytes is out of bounds</text><size>4</size>
      <direction>write</direction><error>out of bounds</error></what>
    <where><func>{kernel}</func><path>/suite/kernels.py</path><line>9</line></where>
  </record>
"""
PRINTED = """========= Invalid __global__ write of size 4 bytes
=========     at {kernel}+0x100 in kernels.py:9
=========     by thread ({x},0,0) in block (3,0,0)
"""
KERNEL = "scale_kernel"
ALONE_S = 20.0


def report(kernel: str, threads: int) -> None:
    """Have the fake tool print records, and save them later."""
    with Path(os.environ["FAKE_SANITIZER_RECORDS"]).open("a", encoding="utf-8") as records:
        records.writelines(RECORD.format(kernel=kernel, x=x) for x in range(threads))
    with Path(os.environ["FAKE_SANITIZER_LOG"]).open("a", encoding="utf-8") as log:
        log.writelines(PRINTED.format(kernel=kernel, x=x) for x in range(threads))


def self_test(fds: tuple[int, ...]) -> int:
    del fds
    report("harness_self_test_memcheck", 1)
    return 0


def self_test_of_a_pair(fds: tuple[int, ...]) -> int:
    """Passes once a second self-test runs or has run at the same time; fails without one."""
    others = Path(os.environ["MISCHIEF_FOLDER"])
    (others / str(os.getpid())).touch()
    deadline = time.monotonic() + ALONE_S
    while len(list(others.iterdir())) == 1:
        if time.monotonic() > deadline:
            return 1
    return self_test(fds)


def silent(fds: tuple[int, ...]) -> int:
    del fds
    return 0


class Launching(Calling):
    """Reports one launch for every case."""

    def run(self, op: Op, case: Case) -> Run:
        run = super().run(op, case)
        launch = Launch(
            kernel=KERNEL,
            source=None,
            grid=(1, 1, 1),
            config="",
            config_index=0,
            config_count=1,
            num_warps=4,
            constants={},
            tile_sizes=(),
            build="b",
        )
        return Run(case=case, engine="cuda", ending=run.ending, launches=(launch,), seconds=run.seconds)


def case_of_rows(function: object) -> Declaration:
    declared = op(dims={"rows": tokens()}, inputs={})(function)  # pyright: ignore[reportArgumentType] - takes any op
    declared.reference(lambda: None)
    return declared


@case_of_rows
def is_quiet(rows: int) -> int:
    return os.getpid() + 0 * rows


@case_of_rows
def strays(rows: int) -> int:
    """Causes a report for each of so many threads."""
    report(KERNEL, rows)
    return os.getpid()


@case_of_rows
def strays_and_dies(rows: int) -> int:
    report(KERNEL, rows)
    os._exit(3)
