"""Prints how many kernels of each guarded library the suites launch on each device, and how many launches abstain.

    python ci/count_kernels.py                                   # all libraries, as docs/results/libraries.md has them
    python ci/count_kernels.py vllm sglang --cases 20 --device b200

A kernel counts by its name, and once for all ranks if it is generated for a rank of tensors.  Results are not judged:
`harness fuzz` does that.
"""

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.device import DeviceProfile
from harness.search.campaign_plan import CaseBudget
from harness.search.kernel_coverage import Coverage, CoverageRequest, measure
from harness.search.options import Options, load_devices, load_ops
from harness.search.session import Session
from harness.suite_files import named_suites

PROJECT = Path(__file__).resolve().parent.parent
DEVICES = "a100,h200,b200,rtx-pro-6000"
CASES = 4
TIME_LIMIT_S = 120.0
RANK = re.compile(r"_rank_\d+(_bptr)?$")
"""The end of the name of a kernel that FlagGems generates for tensors of some rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A library and its suites."""

    suites: str
    libraries: tuple[str, ...]
    """As `--with` takes them."""


LIBRARIES = {
    "vllm": Guarded(suites="suites/vllm", libraries=("sources:vllm==0.24.0",)),
    "sglang": Guarded(suites="suites/sglang", libraries=("sglang==0.5.9",)),
    "flag-gems": Guarded(suites="suites/flag_gems", libraries=("flag-gems==5.0.2", "sqlalchemy==2.0.48")),
    "mamba-ssm": Guarded(suites="suites/mamba", libraries=("sources:mamba-ssm==2.3.2.post1",)),
    "flash-attn": Guarded(suites="suites/flash_attn", libraries=("sources:flash-attn==2.8.3",)),
    "bitsandbytes": Guarded(suites="suites/bitsandbytes", libraries=("bitsandbytes==0.50.2",)),
    "torchao": Guarded(suites="suites/torchao", libraries=("torchao==0.18.0",)),
    "xformers": Guarded(suites="suites/xformers", libraries=("sources:xformers==0.0.33",)),
    "transformer-engine": Guarded(suites="suites/transformer_engine", libraries=("transformer-engine==2.20.2",)),
    "fla-core": Guarded(suites="suites/fla", libraries=("fla-core==0.6.0",)),
    "liger-kernel": Guarded(suites="suites/liger", libraries=("liger-kernel==0.8.5",)),
    "unsloth": Guarded(suites="suites/unsloth", libraries=("unsloth==2026.10.9",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *LIBRARIES], metavar="LIBRARY", help="by default all")
    parser.add_argument("--cases", type=int, default=CASES, help="of each op on each device (default: %(default)s)")
    parser.add_argument("--device", default=DEVICES, help="GPUs to emulate (default: %(default)s)")
    given = parser.parse_args()
    devices = load_devices(given.device, None)
    print(*header(devices), sep="\n", flush=True)
    for name in given.names or LIBRARIES:
        print(row(name, survey(LIBRARIES[name], devices, given.cases), devices), flush=True)


def survey(library: Guarded, devices: tuple[DeviceProfile, ...], cases: int) -> Coverage:
    """Run some cases of each op on each device."""
    suites = named_suites([str(PROJECT / library.suites)])
    request = CoverageRequest(ops=load_ops(suites, (), PROJECT), devices=devices, cases=cases, seed=0)
    options = Options(
        suites=suites,
        devices=devices,
        ops=request.ops,
        budget=CaseBudget(cases=cases * len(request.pairs)),
        seed=0,
        project=PROJECT,
        processes=len(os.sched_getaffinity(0)),
        fixed_sm_count=True,
        libraries=library.libraries,
        time_limit_s=TIME_LIMIT_S,
    )
    with Session(options) as session:
        return measure(request, session.pool, lambda _: None)


def header(devices: Sequence[DeviceProfile]) -> Iterator[str]:
    columns = ["library", "ops", "cases", *(device.slug for device in devices), "all", "launches", "abstained"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{' -- |' * len(columns)}"


def row(name: str, seen: Coverage, devices: Sequence[DeviceProfile]) -> str:
    ops = len({one.op for one in seen.ops})
    kernels = [str(len(launched(seen, device.slug))) for device in devices]
    total = len(launched(seen, *(device.slug for device in devices)))
    columns = [name, str(ops), f"{seen.cases:,}", *kernels, str(total), f"{seen.executed:,}", str(seen.abstained)]
    return f"| {' | '.join(columns)} |"


def launched(seen: Coverage, *devices: str) -> set[str]:
    """Return the names of the kernels that ran on any of the devices."""
    return {RANK.sub("", one.kernel) for one in seen.kernels if one.executed and one.device in devices}


if __name__ == "__main__":
    main()
